//! The response stream of a worker's session.

use std::fmt;
use std::pin::Pin;
use std::sync::{Arc, OnceLock};
use std::task::{Context, Poll};

use ::tonic::Status;
use futures_core::Stream;

use super::verdict::{Finder, kind_of};
use crate::acceptor::{Break, Ending, Replies};
use crate::connector::FailureKind;

/// The response stream of a session.
///
/// It ends cleanly only after the handler returned; any other end carries a status.
pub struct SessionStream<Out> {
    replies: Replies<Out>,
    fault: Fault,
}

/// Why a message of the controller could not be read; clones share it.
#[derive(Clone, Debug, Default)]
pub(super) struct Fault(Arc<OnceLock<Status>>);

// ===== impl Fault =====

impl Fault {
    /// Takes note of how the request stream failed: the controller is told of a message
    /// that cannot be read, and of nothing that it has caused itself.
    pub(super) fn note(&self, status: Status) -> Break {
        if kind_of(&status, Finder::Pool) == FailureKind::Other || self.0.set(status).is_err() {
            return Break::Lost;
        }
        Break::Unreadable
    }

    /// Returns the status at the end of a stream that does not end cleanly.
    fn status(&self, why: Ending) -> Status {
        let text = why.to_string();
        match why {
            // Never told as an error.
            Ending::Returned => Status::ok(text),
            Ending::HandlerGone => Status::internal(text),
            Ending::ControllerGone => Status::cancelled(text),
            Ending::Superseded | Ending::Reset => Status::aborted(text),
            Ending::Closed => Status::unavailable(text),
            Ending::Unreadable => {
                let fault = self.0.get().cloned();
                fault.unwrap_or_else(|| Status::internal(text))
            }
        }
    }
}

// ===== impl SessionStream =====

impl<Out> SessionStream<Out> {
    pub(super) fn new(replies: Replies<Out>, fault: Fault) -> Self {
        Self { replies, fault }
    }
}

impl<Out> Stream for SessionStream<Out> {
    type Item = Result<Out, Status>;

    fn poll_next(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        let Self { replies, fault } = self.get_mut();
        let next = Pin::new(replies).poll_next(cx);
        next.map(|next| next.map(|message| message.map_err(|why| fault.status(why))))
    }
}

impl<Out> fmt::Debug for SessionStream<Out> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SessionStream")
            .field("replies", &self.replies)
            .finish_non_exhaustive()
    }
}
