//! The bodies on the holder's side: what is sent asks the guard, what is received is
//! listened to.

use std::fmt;
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use http_body::{Body, Frame, SizeHint};

use crate::guard::Guard;
use crate::tower::BoxError;
use crate::tower::client::{CallError, ClientLayer};

/// The body of a request that ends with an error once the guard allows nothing more.
///
/// It asks before each frame, so that a request which waited somewhere is not sent late,
/// and a stream is ended at the cancel point even when it has nothing to send.
pub struct GuardedBody<B> {
    inner: Pin<Box<B>>,
    guard: Guard,
    /// Made when there is something to wait for: most bodies are there at once.
    cancelled: Option<Pin<Box<dyn Future<Output = ()> + Send>>>,
}

/// The body of an answer, whose trailers the [`Client`](crate::tower::Client) reads.
pub struct HeardBody<B> {
    inner: Pin<Box<B>>,
    layer: Arc<ClientLayer>,
}

// ===== impl GuardedBody =====

impl<B> GuardedBody<B> {
    pub(super) fn new(inner: B, guard: Guard) -> Self {
        Self {
            inner: Box::pin(inner),
            guard,
            cancelled: None,
        }
    }
}

impl<B> Body for GuardedBody<B>
where
    B: Body,
    B::Error: Into<BoxError>,
{
    type Data = B::Data;
    type Error = BoxError;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<B::Data>, BoxError>>> {
        let this = &mut *self;
        let guard = &this.guard;
        let refused = || {
            guard
                .check()
                .err()
                .map(|error| Err(CallError::Refused(error).into()))
        };
        if let Some(error) = refused() {
            return Poll::Ready(Some(error));
        }
        if let Poll::Ready(frame) = this.inner.as_mut().poll_frame(cx) {
            // A frame that took its time is asked about too.
            return Poll::Ready(match (frame, refused()) {
                (Some(_), Some(error)) => Some(error),
                (frame, _) => frame.map(|frame| frame.map_err(Into::into)),
            });
        }
        let cancelled = this
            .cancelled
            .get_or_insert_with(|| Box::pin(guard.cancelled()));
        match cancelled.as_mut().poll(cx) {
            Poll::Ready(()) => Poll::Ready(refused()),
            Poll::Pending => Poll::Pending,
        }
    }

    fn is_end_stream(&self) -> bool {
        self.inner.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.inner.size_hint()
    }
}

impl<B> fmt::Debug for GuardedBody<B> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("GuardedBody")
            .field("guard", &self.guard)
            .finish_non_exhaustive()
    }
}

// ===== impl HeardBody =====

impl<B> HeardBody<B> {
    pub(super) fn new(inner: B, layer: Arc<ClientLayer>) -> Self {
        let inner = Box::pin(inner);
        Self { inner, layer }
    }
}

impl<B: Body> Body for HeardBody<B> {
    type Data = B::Data;
    type Error = B::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<B::Data>, B::Error>>> {
        let this = &mut *self;
        let polled = this.inner.as_mut().poll_frame(cx);
        if let Poll::Ready(Some(Ok(frame))) = &polled
            && let Some(trailers) = frame.trailers_ref()
        {
            this.layer.hear(trailers);
        }
        polled
    }

    fn is_end_stream(&self) -> bool {
        self.inner.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.inner.size_hint()
    }
}

impl<B> fmt::Debug for HeardBody<B> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("HeardBody").finish_non_exhaustive()
    }
}
