//! The resource's side: admits requests, and holds the admission until they are answered.

use std::fmt;
use std::future::{Future, poll_fn};
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use http::{Method, Request, Response};
use tower_layer::Layer;
use tower_service::Service;

use crate::fence::{Admission, Fence};
use crate::token::Token;
use crate::tower::held::HeldBody;
use crate::tower::rejection::Rejection;
use crate::tower::wire;

/// Puts a [`Fence`] before a service: a request runs only while its token is admitted.
///
/// A request whose token is not admitted never reaches the service, and is answered as the
/// [module](crate::tower) says. One without a token is refused, unless its route is
/// [open](Self::with_open_route).
///
/// The handler finds an `Arc<Admission>` in the request's extensions. The admission is held
/// until the body of the answer has ended, also by every clone of that `Arc`: a handler that
/// hands work to a queue or a task hands a clone with it. When a higher token comes, the
/// body is dropped and ended; a handler that has not answered yet goes on, since it may be
/// in the middle of its effect: it sees [`Admission::revoked`](crate::Admission::revoked),
/// and the higher token waits for it up to the fence's
/// [drain wait](Fence::with_drain_wait).
///
/// The admission of an upgraded connection (a 101 answer) ends with that answer: clone the
/// `Arc` into what serves the connection. Where a body's error is a boxed one, the compiler
/// may not find this service `Send` in `tokio::spawn`; give such bodies an error of their own.
///
/// Always ready: the service's readiness is waited for under the admission, so that a higher
/// token reaches the fence while the service is busy with lower ones, and ends them. A limit
/// on requests under way belongs inside of this layer for that reason; outside of it, a higher
/// token waits behind what it would end.
///
/// Tokens are believed: put authentication outside of this layer, since a caller that may
/// send any number can lock all others out.
#[derive(Clone)]
pub struct ServerLayer {
    rules: Arc<Rules>,
}

/// The service that [`ServerLayer`] makes.
#[derive(Clone)]
pub struct Server<S> {
    inner: S,
    rules: Arc<Rules>,
}

#[derive(Clone)]
struct Rules {
    fence: Fence,
    open: Vec<(Method, String)>,
}

// ===== impl ServerLayer =====

impl ServerLayer {
    /// Makes a layer that admits by this fence, and leaves no route open.
    #[must_use]
    pub fn new(fence: Fence) -> Self {
        let open = Vec::new();
        let rules = Arc::new(Rules { fence, open });
        Self { rules }
    }

    /// Lets requests of one route in without a token: one that only reads.
    ///
    /// Method and path must be equal to the request's as this layer sees them, which for
    /// gRPC is `POST` and `/package.Service/Method`. A request with a token is admitted as
    /// on any other route, and refused if that is stale. `HEAD` is a method of its own: open
    /// it, too, where a server answers it by `GET`.
    #[must_use]
    pub fn with_open_route(mut self, method: Method, path: impl Into<String>) -> Self {
        Arc::make_mut(&mut self.rules)
            .open
            .push((method, path.into()));
        self
    }
}

impl<S> Layer<S> for ServerLayer {
    type Service = Server<S>;

    fn layer(&self, inner: S) -> Server<S> {
        let rules = Arc::clone(&self.rules);
        Server { inner, rules }
    }
}

impl fmt::Debug for ServerLayer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ServerLayer")
            .field("fence", &self.rules.fence)
            .field("open", &self.rules.open)
            .finish()
    }
}

// ===== impl Rules =====

impl Rules {
    /// The token to admit; `None` where none is needed.
    fn token<B>(&self, request: &Request<B>) -> Result<Option<Token>, Rejection> {
        let token = wire::token(request.headers())?;
        if token.is_none() && !self.is_open(request.method(), request.uri().path()) {
            return Err(Rejection::missing());
        }
        Ok(token)
    }

    fn is_open(&self, method: &Method, path: &str) -> bool {
        let is_it = |(open, route): &(Method, String)| open == method && route == path;
        self.open.iter().any(is_it)
    }
}

// ===== impl Server =====

impl<S, B, R> Service<Request<B>> for Server<S>
where
    S: Service<Request<B>, Response = Response<R>> + Clone + Send + 'static,
    S::Future: Send,
    B: Send + 'static,
    R: Send + 'static,
{
    type Response = Response<HeldBody<R>>;
    type Error = S::Error;
    type Future = Pin<Box<dyn Future<Output = Result<Self::Response, S::Error>> + Send>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), S::Error>> {
        // A service that is busy with a lower token must not keep a higher one from the
        // fence, which would end what it is busy with. It is waited for after that.
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, request: Request<B>) -> Self::Future {
        let (inner, rules) = (self.inner.clone(), Arc::clone(&self.rules));
        Box::pin(serve(inner, rules, request))
    }
}

async fn serve<S, B, R>(
    mut inner: S,
    rules: Arc<Rules>,
    mut request: Request<B>,
) -> Result<Response<HeldBody<R>>, S::Error>
where
    S: Service<Request<B>, Response = Response<R>>,
    R: Send + 'static,
{
    let is_grpc = wire::is_grpc(request.headers());
    let token = match rules.token(&request) {
        Ok(Some(token)) => token,
        Ok(None) => {
            poll_fn(|cx| inner.poll_ready(cx)).await?;
            return Ok(inner.call(request).await?.map(HeldBody::open));
        }
        Err(rejection) => return Ok(rejection.response(is_grpc, HeldBody::text)),
    };
    let admission = loop {
        let admission = match rules.fence.admit(&token).await {
            Ok(admission) => admission,
            Err(error) => {
                let cause: &(dyn std::error::Error + 'static) = &error;
                tracing::debug!(
                    token = token.number(),
                    error = cause,
                    "a request was refused"
                );
                let rejection = Rejection::of(&token, &error);
                return Ok(rejection.response(is_grpc, HeldBody::text));
            }
        };
        // Nothing of it has begun where it is revoked: the fence says why.
        if is_ready_first(&mut inner, &admission).await? {
            break Arc::new(admission);
        }
    };
    request.extensions_mut().insert(Arc::clone(&admission));
    let response = inner.call(request).await?;
    let fence = rules.fence.clone();
    Ok(response.map(|body| HeldBody::held(body, admission, fence, is_grpc)))
}

/// Waits until the service is ready; false where the admission is revoked before.
async fn is_ready_first<S, Q>(inner: &mut S, admission: &Admission) -> Result<bool, S::Error>
where
    S: Service<Q>,
{
    let mut revoked = None;
    poll_fn(|cx| {
        if let Poll::Ready(ready) = inner.poll_ready(cx) {
            return Poll::Ready(ready.map(|()| !admission.is_revoked()));
        }
        let revoked = revoked.get_or_insert_with(|| Box::pin(admission.revoked()));
        revoked.as_mut().poll(cx).map(|()| Ok(false))
    })
    .await
}

impl<S: fmt::Debug> fmt::Debug for Server<S> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Server")
            .field("inner", &self.inner)
            .field("fence", &self.rules.fence)
            .finish_non_exhaustive()
    }
}
