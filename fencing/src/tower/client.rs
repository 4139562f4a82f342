//! The holder's side: asks the guard, sends the token, and listens for higher ones.

use std::fmt;
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use http::{HeaderMap, HeaderValue, Request, Response};
use tower_layer::Layer;
use tower_service::Service;

use crate::guard::{Guard, Refused, Stopped};
use crate::token::{InvalidToken, Token};
use crate::tower::body::{GuardedBody, HeardBody};
use crate::tower::rejection::{Reason, Rejection};
use crate::tower::wire;
use crate::tower::{BoxError, SCOPE_HEADER, TOKEN_HEADER, timeout};

/// Sends requests only while a [`Guard`] allows work, and with its token.
///
/// A request is refused from the guard's cancel point on. One that is under way then is
/// dropped, until the head of its answer is there: whether it took effect is unknown until
/// it is read back. The body of an answer goes on; read a stream that leads to further work
/// within [`Guard::run`]. The body of a request
/// asks the guard before each frame, so that neither a queue nor a stream sends anything
/// later. Headers of the same names that the caller has set are replaced.
///
/// A gRPC request gets the header `grpc-timeout`, or a lower one, so that the server gives up
/// by the cancel point too.
///
/// Waiting for the service to be ready (`poll_ready`) has no limit of its own: use
/// [`Guard::run`] around both if the service may stay busy. From the cancel point on
/// `poll_ready` itself is an error, for good.
#[derive(Clone)]
pub struct ClientLayer {
    guard: Guard,
    token: Token,
    scope: Option<HeaderValue>,
    min_remaining: Duration,
    trips: bool,
    on_higher: Option<Arc<dyn Fn(u64) + Send + Sync>>,
}

/// The service that [`ClientLayer`] makes.
#[derive(Clone, Debug)]
pub struct Client<S> {
    inner: S,
    layer: Arc<ClientLayer>,
}

/// A request was not sent, or its outcome is not known.
#[derive(Clone, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum CallError {
    /// The guard allows nothing more. Nothing was sent.
    #[error(transparent)]
    Refused(#[from] Refused),
    /// The guard's cancel point is too near. Nothing was sent; try again after a renewal.
    #[error("{remaining:?} are left to the cancel point, {needed:?} are needed")]
    #[non_exhaustive]
    TooLate {
        /// The time left.
        remaining: Duration,
        /// The time that the layer was told a request needs.
        needed: Duration,
    },
    /// No fence admits this token. Nothing was sent; fix the caller.
    #[error("the token is invalid")]
    Invalid(#[from] InvalidToken),
    /// The guard stopped the request while it was under way. It may have taken effect, or
    /// may still do so.
    #[error("the outcome of the request is unknown")]
    Interrupted(#[source] Stopped),
}

// ===== impl ClientLayer =====

impl ClientLayer {
    /// Makes a layer that sends the guard's token, in the empty scope.
    #[must_use]
    pub fn new(guard: Guard) -> Self {
        Self {
            token: guard.token().into(),
            guard,
            scope: None,
            min_remaining: Duration::ZERO,
            trips: false,
            on_higher: None,
        }
    }

    /// Sets the scope of the token. One above 128 bytes has every request refused.
    #[must_use]
    pub fn with_scope(mut self, scope: impl AsRef<str>) -> Self {
        let scope = scope.as_ref();
        self.scope = (!scope.is_empty()).then(|| wire::encode_scope(scope));
        self.token = Token::scoped(scope, self.guard.token());
        self
    }

    /// Refuses requests when less than this is left to the cancel point. Default zero.
    ///
    /// For requests that take at least so long: they would be sent to be dropped.
    #[must_use]
    pub fn with_min_remaining(mut self, min_remaining: Duration) -> Self {
        self.min_remaining = min_remaining;
        self
    }

    /// Calls `on_higher` with the number when an answer says that a fence has seen a higher
    /// token of the same scope.
    ///
    /// It must not block. Whether the lease is really lost only its store can say: one
    /// resource that lies must not end every holder.
    #[must_use]
    pub fn with_on_higher(mut self, on_higher: impl Fn(u64) + Send + Sync + 'static) -> Self {
        self.on_higher = Some(Arc::new(on_higher));
        self
    }

    /// Trips the guard when an answer says that a fence has seen a higher token of the
    /// same scope, before the caller has the answer.
    ///
    /// Learns of the loss before the lease is over. Only where the resources are trusted as
    /// much as the store: with [`Policy::Abort`](crate::Policy::Abort) it ends the process.
    #[must_use]
    pub fn with_trip_on_higher(mut self) -> Self {
        self.trips = true;
        self
    }

    /// Says why nothing may be sent now.
    pub(crate) fn check(&self) -> Result<(), CallError> {
        self.guard.check()?;
        self.token.validate()?;
        Ok(())
    }

    /// Makes what is sent, if something may be.
    pub(crate) fn prepare<B>(
        &self,
        mut request: Request<B>,
    ) -> Result<Request<GuardedBody<B>>, CallError> {
        self.check()?;
        let remaining = self.guard.remaining();
        if remaining < self.min_remaining {
            let needed = self.min_remaining;
            return Err(CallError::TooLate { remaining, needed });
        }
        let headers = request.headers_mut();
        headers.insert(TOKEN_HEADER, self.token.number().into());
        match &self.scope {
            Some(scope) => headers.insert(SCOPE_HEADER, scope.clone()),
            None => headers.remove(SCOPE_HEADER),
        };
        if wire::is_grpc(headers) {
            timeout::cap(headers, remaining);
        }
        let guard = self.guard.clone();
        Ok(request.map(|body| GuardedBody::new(body, guard)))
    }

    /// Waits for the answer, but not beyond the cancel point.
    pub(crate) async fn finish<R, E: Into<BoxError>>(
        self: Arc<Self>,
        call: impl Future<Output = Result<Response<R>, E>>,
    ) -> Result<Response<HeardBody<R>>, BoxError> {
        let response = match self.guard.run(call).await {
            Ok(outcome) => outcome.map_err(Into::into)?,
            Err(lost) => return Err(CallError::Interrupted(lost).into()),
        };
        self.hear(response.headers());
        Ok(response.map(|body| HeardBody::new(body, self)))
    }

    /// Acts on what the headers or trailers of an answer say about higher tokens.
    pub(crate) fn hear(&self, headers: &HeaderMap) {
        let Some(rejection) = Rejection::from_headers(headers) else {
            return;
        };
        let is_about_us = matches!(rejection.reason(), Reason::StaleToken | Reason::Revoked)
            && rejection.scope().unwrap_or_default() == self.token.scope();
        let Some(highest) = rejection.highest().filter(|_| is_about_us) else {
            return;
        };
        let token = self.token.number();
        if highest <= token {
            // A fence that is behind must not end the holder that is ahead of it.
            tracing::warn!(
                token,
                highest,
                "refused as stale by a fence that saw nothing higher"
            );
            return;
        }
        tracing::warn!(token, highest, "a fence has seen a higher token");
        if let Some(on_higher) = &self.on_higher {
            on_higher(highest);
        }
        if self.trips {
            self.guard.trip();
        }
    }
}

impl<S> Layer<S> for ClientLayer {
    type Service = Client<S>;

    fn layer(&self, inner: S) -> Client<S> {
        let layer = Arc::new(self.clone());
        Client { inner, layer }
    }
}

impl fmt::Debug for ClientLayer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ClientLayer")
            .field("guard", &self.guard)
            .field("token", &self.token)
            .field("min_remaining", &self.min_remaining)
            .field("trips", &self.trips)
            .finish_non_exhaustive()
    }
}

// ===== impl Client =====

impl<S, B, R> Service<Request<B>> for Client<S>
where
    S: Service<Request<GuardedBody<B>>, Response = Response<R>>,
    S::Error: Into<BoxError> + 'static,
    S::Future: Send + 'static,
    R: 'static,
{
    type Response = Response<HeardBody<R>>;
    type Error = BoxError;
    type Future = Pin<Box<dyn Future<Output = Result<Self::Response, BoxError>> + Send>>;

    fn poll_ready(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), BoxError>> {
        // Final, as an error of readiness has to be: such a guard never allows anything.
        self.layer.check()?;
        self.inner.poll_ready(cx).map_err(Into::into)
    }

    fn call(&mut self, request: Request<B>) -> Self::Future {
        match self.layer.prepare(request) {
            Ok(request) => Box::pin(Arc::clone(&self.layer).finish(self.inner.call(request))),
            Err(error) => Box::pin(async { Err(error.into()) }),
        }
    }
}
