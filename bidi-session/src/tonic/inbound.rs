//! What a worker says, up to the stream's end and why it ended.

use std::pin::Pin;
use std::task::{Context, Poll};

use ::tonic::{Status, Streaming};
use futures_core::Stream;
use futures_util::FutureExt;

use super::pings::Leave;
use super::verdict::{Finder, kind_of};
use crate::connector::Failure;

/// Messages of one session; ends after its first error.
pub(super) struct Inbound<In> {
    stream: Streaming<In>,
    leave: Leave,
}

// ===== impl Inbound =====

impl<In> Inbound<In> {
    pub(super) fn new(stream: Streaming<In>, leave: Leave) -> Self {
        Self { stream, leave }
    }

    fn fail(&mut self, status: &Status) -> Failure {
        let kind = kind_of(status, self.finder());
        Failure::new(self.leave.take(status)).with_kind(kind)
    }

    /// Says who made the status that the stream has just ended with.
    ///
    /// A stream is exhausted by a status of the worker, its trailers included. After a
    /// message that this side could not read, it is not: the rest follows, or trailers.
    fn finder(&mut self) -> Finder {
        match self.stream.trailers().now_or_never() {
            Some(Ok(None)) => Finder::Worker,
            _ => Finder::Pool,
        }
    }
}

impl<In> Stream for Inbound<In> {
    type Item = Result<In, Failure>;

    fn poll_next(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        let this = self.get_mut();
        let next = match Pin::new(&mut this.stream).poll_next(cx) {
            Poll::Ready(next) => next,
            Poll::Pending => return Poll::Pending,
        };
        Poll::Ready(next.map(|message| message.map_err(|status| this.fail(&status))))
    }
}

// Nothing in it is pinned: the stream is not either.
impl<In> Unpin for Inbound<In> {}
