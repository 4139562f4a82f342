//! The layers of [`tower`](crate::tower) in tonic's types.
//!
//! On the server [`tower::ServerLayer`](crate::tower::ServerLayer) is all that is needed:
//! before a whole server by `Server::builder().layer(..)`, or before one service. Here are
//! the client's side, and statuses for handlers that ask a [`Fence`](crate::Fence) themselves.
//!
//! # Examples
//!
//! ```
//! use fencing::Guard;
//! use fencing::tonic::{ChannelLayer, FencedChannel, rejection};
//! use fencing::tower::ClientLayer;
//! use tonic::Status;
//! use tonic::transport::Channel;
//! use tower_layer::Layer;
//!
//! fn fenced(channel: Channel, guard: Guard) -> FencedChannel<Channel> {
//!     // Goes where generated clients take a channel: `OrdersClient::new(channel)`.
//!     ChannelLayer::new(ClientLayer::new(guard)).layer(channel)
//! }
//!
//! fn explain(status: &Status) {
//!     if let Some(rejection) = rejection(status) {
//!         eprintln!("{:?}, highest {:?}", rejection.reason(), rejection.highest());
//!     }
//! }
//! ```

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use http::{Request, Response};
use tonic::body::Body;
use tonic::metadata::MetadataMap;
use tonic::server::NamedService;
use tonic::{Code, Status};
use tower_layer::Layer;
use tower_service::Service;

use crate::fence::AdmitError;
use crate::token::Token;
use crate::tower::{BoxError, CallError, ClientLayer, HeardBody, Rejection, Server};

/// A [`ClientLayer`] for channels of tonic, whose errors are statuses.
#[derive(Clone, Debug)]
pub struct ChannelLayer {
    layer: Arc<ClientLayer>,
}

/// The service that [`ChannelLayer`] makes: what generated clients take for a channel.
///
/// Where the guard refuses, each call fails with the status of its [`CallError`]; being ready
/// does not.
#[derive(Clone, Debug)]
pub struct FencedChannel<S> {
    inner: S,
    layer: Arc<ClientLayer>,
}

// ===== impl ChannelLayer =====

impl ChannelLayer {
    /// Makes it of a layer that is set up.
    #[must_use]
    pub fn new(layer: ClientLayer) -> Self {
        let layer = Arc::new(layer);
        Self { layer }
    }
}

impl<S> Layer<S> for ChannelLayer {
    type Service = FencedChannel<S>;

    fn layer(&self, inner: S) -> FencedChannel<S> {
        let layer = Arc::clone(&self.layer);
        FencedChannel { inner, layer }
    }
}

// ===== impl FencedChannel =====

impl<S, R> Service<Request<Body>> for FencedChannel<S>
where
    S: Service<Request<Body>, Response = Response<R>>,
    S::Error: Into<BoxError> + 'static,
    S::Future: Send + 'static,
    R: 'static,
{
    type Response = Response<HeardBody<R>>;
    type Error = Status;
    type Future = Pin<Box<dyn Future<Output = Result<Self::Response, Status>> + Send>>;

    fn poll_ready(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), Status>> {
        // Refused for good: `call` says so, without the inner service. Generated clients keep
        // only the text of an error from here, and make it `UNKNOWN`.
        if self.layer.check().is_err() {
            return Poll::Ready(Ok(()));
        }
        let ready = self.inner.poll_ready(cx);
        ready.map_err(|error| Status::from_error(error.into()))
    }

    fn call(&mut self, request: Request<Body>) -> Self::Future {
        match self.layer.prepare(request) {
            Ok(request) => {
                let call = self.inner.call(request.map(Body::new));
                let finished = Arc::clone(&self.layer).finish(call);
                Box::pin(async { finished.await.map_err(status) })
            }
            Err(error) => Box::pin(async { Err(error.into()) }),
        }
    }
}

/// The error of a layer or of what is below it.
fn status(error: BoxError) -> Status {
    match error.downcast::<CallError>() {
        Ok(error) => (*error).into(),
        Err(error) => Status::from_error(error),
    }
}

/// Reads the rejection of a fence in a status, if it is one.
#[must_use]
pub fn rejection(status: &Status) -> Option<Rejection> {
    Rejection::from_headers(status.metadata().as_ref())
}

/// The status that [`ServerLayer`](crate::tower::ServerLayer) answers when a fence says
/// `error` to `token`, for handlers that ask a fence for each message of a stream.
#[must_use]
pub fn refusal(token: &Token, error: &AdmitError) -> Status {
    let rejection = Rejection::of(token, error);
    let mut headers = http::HeaderMap::new();
    rejection.write(&mut headers);
    let code = Code::from_i32(rejection.reason().grpc_status().into());
    let metadata = MetadataMap::from_headers(headers);
    Status::with_metadata(code, rejection.to_string(), metadata)
}

// ===== impl Status =====

impl From<CallError> for Status {
    /// `CANCELLED` when the outcome is unknown, `UNAVAILABLE` when a renewal may help,
    /// `FAILED_PRECONDITION` when nothing was sent and a retry cannot help. The
    /// [`CallError`] is the source.
    fn from(error: CallError) -> Self {
        let code = match error {
            CallError::Interrupted(_) => Code::Cancelled,
            CallError::TooLate { .. } => Code::Unavailable,
            CallError::Refused(_) | CallError::Invalid(_) => Code::FailedPrecondition,
        };
        let mut status = Self::new(code, error.to_string());
        status.set_source(Arc::new(error));
        status
    }
}

// ===== impl Server =====

impl<S: NamedService> NamedService for Server<S> {
    const NAME: &'static str = S::NAME;
}
