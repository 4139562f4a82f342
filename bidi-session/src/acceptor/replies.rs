//! A session's messages on their way to the controller.

use std::fmt;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use futures_core::Stream;

use super::link::{End, Ending, Link};
use crate::outbox::Outbox;

/// The messages of a session's handler.
///
/// Ends cleanly only after the handler returned; any other end is told as an error.
pub(crate) struct Replies<Out> {
    link: Arc<Link<Out>>,
    outbox: Outbox<Out>,
    is_done: bool,
}

// ===== impl Replies =====

impl<Out> Replies<Out> {
    pub(super) fn new(link: Arc<Link<Out>>, outbox: Outbox<Out>) -> Self {
        Self {
            link,
            outbox,
            is_done: false,
        }
    }

    /// Returns how many messages are queued.
    #[cfg(feature = "test-util")]
    pub(crate) fn len(&self) -> usize {
        self.outbox.len()
    }
}

impl<Out> Stream for Replies<Out> {
    type Item = Result<Out, Ending>;

    fn poll_next(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        let this = self.get_mut();
        if this.is_done {
            return Poll::Ready(None);
        }
        let next = match Pin::new(&mut this.outbox).poll_next(cx) {
            Poll::Pending => return Poll::Pending,
            Poll::Ready(next) => next,
        };
        if let Some(message) = next {
            return Poll::Ready(Some(Ok(message)));
        }
        this.is_done = true;
        // The ending is set before the outbox is closed.
        let ending = this.link.ending().filter(|why| *why != Ending::Returned);
        Poll::Ready(ending.map(Err))
    }
}

// Nothing in it is pinned.
impl<Out> Unpin for Replies<Out> {}

impl<Out> Drop for Replies<Out> {
    fn drop(&mut self) {
        // The transport drops it when the controller or its connection is gone.
        self.link.end(Ending::ControllerGone);
    }
}

impl<Out> fmt::Debug for Replies<Out> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Replies")
            .field("link", &self.link)
            .finish_non_exhaustive()
    }
}
