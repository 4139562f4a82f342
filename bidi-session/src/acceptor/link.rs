//! What the parts of one session share: whether it is over, and its two directions.

use std::fmt;
use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};
use std::task::{Context, Poll};

use futures_core::Stream;
use tokio_util::sync::CancellationToken;

use crate::outbox::{Outbox, OutboxSender, Room, outbox};

/// Answers that wait for the controller, at most.
const OUTBOX_LEN: usize = 256;

/// Why a session is over.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Ending {
    /// The handler returned: what is queued still goes out.
    Returned,
    /// The handler was aborted or panicked.
    HandlerGone,
    /// The controller is gone, or its connection is.
    ControllerGone,
    /// A newer session of a controller takes over.
    Superseded,
    /// The acceptor's terms were reset.
    Reset,
    /// The acceptor was closed.
    Closed,
    /// A message of the controller cannot be read; the transport knows why.
    Unreadable,
}

/// Ends a session from outside, whatever it carries.
pub(super) trait End {
    fn end(&self, why: Ending);
}

/// The state of one session and its way to the controller.
pub(super) struct Link<Out> {
    pub(super) term: u64,
    pub(super) generation: u64,
    over: CancellationToken,
    ending: OnceLock<Ending>,
    outbox: OutboxSender<Out>,
}

/// The way from the controller; empty once the session is over.
pub(super) struct Inbound<In>(Mutex<Option<Requests<In>>>);

/// Messages of the controller.
type Requests<In> = Pin<Box<dyn Stream<Item = Result<In, Break>> + Send>>;

/// How a request stream ends that does not end cleanly.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Break {
    /// The connection or the controller is gone.
    #[cfg_attr(
        not(feature = "tonic"),
        expect(dead_code, reason = "only gRPC's streams end so")
    )]
    Lost,
    /// A message cannot be read, of which the controller is to be told.
    Unreadable,
}

// ===== impl Ending =====

impl fmt::Display for Ending {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Returned => "the worker's handler returned",
            Self::HandlerGone => "the worker's handler ended abnormally",
            Self::ControllerGone => "the controller is gone",
            Self::Superseded => "a newer session took over",
            Self::Reset => "the worker's terms were reset",
            Self::Closed => "the worker's acceptor was closed",
            Self::Unreadable => "a message cannot be read",
        })
    }
}

// ===== impl Link =====

impl<Out> Link<Out> {
    pub(super) fn new(term: u64, generation: u64) -> (Arc<Self>, Outbox<Out>) {
        let (sender, receiver) = outbox(Room {
            count: OUTBOX_LEN,
            // Answers are not measured.
            bytes: 0,
        });
        let link = Arc::new(Self {
            term,
            generation,
            over: CancellationToken::new(),
            ending: OnceLock::new(),
            outbox: sender,
        });
        (link, receiver)
    }

    pub(super) fn is_over(&self) -> bool {
        // Set first, so whoever has heard of the end in any way finds it here.
        self.ending.get().is_some()
    }

    /// Resolves when the session is over.
    pub(super) fn over(&self) -> &CancellationToken {
        &self.over
    }

    pub(super) fn ending(&self) -> Option<Ending> {
        self.ending.get().copied()
    }

    /// Queues an answer as soon as there is room, or gives it back.
    pub(super) async fn send(&self, message: Out) -> Result<(), Out> {
        if self.is_over() {
            return Err(message);
        }
        self.outbox.push(message, 0).await.map_err(|(_, back)| back)
    }

    /// Queues an answer now, or gives it back.
    pub(super) fn try_send(&self, message: Out) -> Result<(), Out> {
        if self.is_over() {
            return Err(message);
        }
        self.outbox.try_push(message, 0).map_err(|(_, back)| back)
    }
}

impl<Out> End for Link<Out> {
    fn end(&self, why: Ending) {
        // The first reason stays; whoever reads the stream's end must find it.
        if self.ending.set(why).is_err() {
            return;
        }
        if why == Ending::Returned {
            self.outbox.finish();
        } else {
            self.outbox.close();
        }
        self.over.cancel();
    }
}

impl<Out> fmt::Debug for Link<Out> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Link")
            .field("term", &self.term)
            .field("generation", &self.generation)
            .field("ending", &self.ending.get())
            .finish_non_exhaustive()
    }
}

// ===== impl Inbound =====

impl<In> Inbound<In> {
    pub(super) fn new(requests: impl Stream<Item = Result<In, Break>> + Send + 'static) -> Self {
        Self(Mutex::new(Some(Box::pin(requests))))
    }

    /// Returns the next message; an error is the last thing that is read.
    pub(super) fn poll_next(&self, cx: &mut Context<'_>) -> Poll<Option<Result<In, Break>>> {
        let mut stream = self.lock();
        match stream.as_mut() {
            Some(stream) => stream.as_mut().poll_next(cx),
            None => Poll::Ready(None),
        }
    }

    /// Drops the stream, whoever still holds the session.
    pub(super) fn cut(&self) {
        let stream = self.lock().take();
        // Outside of the lock: dropping a stream runs foreign code.
        drop(stream);
    }

    fn lock(&self) -> MutexGuard<'_, Option<Requests<In>>> {
        // The stream is only polled under the lock; a panic there ends the handler.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_is_queued_once_the_end_was_seen() {
        for why in [Ending::Returned, Ending::Superseded].repeat(100) {
            let (link, _stream) = Link::<u8>::new(1, 1);
            std::thread::scope(|scope| {
                scope.spawn(|| link.end(why));
                while !link.over().is_cancelled() {
                    std::hint::spin_loop();
                }
                assert!(link.is_over());
                assert_eq!(link.try_send(1), Err(1));
            });
        }
    }

    #[test]
    fn the_first_reason_of_an_end_stays() {
        let (link, _stream) = Link::<u8>::new(1, 1);
        link.end(Ending::Superseded);
        link.end(Ending::ControllerGone);
        assert_eq!(link.ending(), Some(Ending::Superseded));
        assert!(link.over().is_cancelled());
    }
}
