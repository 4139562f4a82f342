//! The response stream of a worker's session.

use std::fmt;
use std::pin::Pin;
use std::task::{Context, Poll};

use ::tonic::Status;
use futures_core::Stream;

use crate::acceptor::{Ending, Replies};

/// The response stream of a session.
///
/// It ends cleanly only after the handler returned; any other end carries a status.
pub struct SessionStream<Out> {
    replies: Replies<Out>,
}

// ===== impl SessionStream =====

impl<Out> SessionStream<Out> {
    pub(super) fn new(replies: Replies<Out>) -> Self {
        Self { replies }
    }
}

impl<Out> Stream for SessionStream<Out> {
    type Item = Result<Out, Status>;

    fn poll_next(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        let next = Pin::new(&mut self.get_mut().replies).poll_next(cx);
        next.map(|next| next.map(|message| message.map_err(status)))
    }
}

impl<Out> fmt::Debug for SessionStream<Out> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SessionStream")
            .field("replies", &self.replies)
            .finish()
    }
}

/// Returns the status at the end of a stream that does not end cleanly.
fn status(why: Ending) -> Status {
    let text = why.to_string();
    match why {
        // Never told as an error.
        Ending::Returned => Status::ok(text),
        Ending::HandlerGone => Status::internal(text),
        Ending::ControllerGone => Status::cancelled(text),
        Ending::Superseded => Status::aborted(text),
        Ending::Closed => Status::unavailable(text),
    }
}
