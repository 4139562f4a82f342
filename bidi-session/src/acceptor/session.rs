//! A worker's handles on its one session.

use std::fmt;
use std::future::{Future, poll_fn};
use std::pin::Pin;
use std::sync::Arc;
use std::task::Poll;

use tokio_util::sync::WaitForCancellationFutureOwned;

use super::link::{Break, End, Ending, Inbound, Link};

/// A worker's side of one session with the controller.
///
/// It is over as soon as a newer session arrives, the controller is gone, the acceptor
/// is closed or the handler returns, whoever holds it then: from that moment
/// [`recv`](Self::recv) ends and [`send`](Self::send) fails, buffered messages included.
pub struct Session<In, Out> {
    link: Arc<Link<Out>>,
    inbound: Arc<Inbound<In>>,
    over: Pin<Box<WaitForCancellationFutureOwned>>,
}

/// A cloneable sender of a session; keeps nothing alive.
///
/// For work that tells the controller of its progress while the handler waits for the
/// next command.
pub struct SessionSender<Out> {
    link: Arc<Link<Out>>,
}

/// The session is over; gives the message back.
#[derive(Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct SessionOver<Out> {
    /// The message that was not queued.
    pub message: Out,
}

/// A message was not queued, and is given back.
#[derive(Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct TrySendError<Out> {
    /// The message.
    pub message: Out,
    /// Whether the session is over; else the queue is full: wait for room.
    pub is_over: bool,
}

// ===== impl Session =====

impl<In, Out> Session<In, Out> {
    pub(super) fn new(link: Arc<Link<Out>>, inbound: Arc<Inbound<In>>) -> Self {
        let over = Box::pin(link.over().clone().cancelled_owned());
        Self {
            link,
            inbound,
            over,
        }
    }

    /// Returns the controller's term.
    #[must_use]
    pub fn term(&self) -> u64 {
        self.link.term
    }

    /// Returns the number of this stream within the controller's pool.
    #[must_use]
    pub fn generation(&self) -> u64 {
        self.link.generation
    }

    /// Returns the next message, or `None` when there is none any more: the controller
    /// closed its side or is gone, or the session is over.
    ///
    /// A controller that vanished without a word is noticed by the keepalive of the
    /// worker's server: over gRPC only where it was turned on, see
    /// [`Acceptor`](super::Acceptor).
    ///
    /// # Cancel safety
    ///
    /// Cancel safe: no message is lost when the future is dropped.
    pub async fn recv(&mut self) -> Option<In> {
        poll_fn(|cx| {
            if self.link.is_over() {
                return Poll::Ready(None);
            }
            if let Poll::Ready(next) = self.inbound.poll_next(cx) {
                return Poll::Ready(next.and_then(|message| match message {
                    Ok(message) => Some(message),
                    Err(broken) => {
                        if broken == Break::Unreadable {
                            self.link.end(Ending::Unreadable);
                        }
                        self.inbound.cut();
                        None
                    }
                }));
            }
            self.over.as_mut().poll(cx).map(|()| None)
        })
        .await
    }

    /// Queues a message to the controller; waits while 256 are queued.
    ///
    /// # Errors
    ///
    /// [`SessionOver`] when the session is over.
    ///
    /// # Cancel safety
    ///
    /// Cancel safe: a dropped future has queued nothing.
    pub async fn send(&self, message: Out) -> Result<(), SessionOver<Out>> {
        send(&self.link, message).await
    }

    /// Returns a sender for other tasks.
    #[must_use]
    pub fn sender(&self) -> SessionSender<Out> {
        SessionSender {
            link: self.link.clone(),
        }
    }
}

impl<In, Out> fmt::Debug for Session<In, Out> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Session")
            .field("link", &self.link)
            .finish_non_exhaustive()
    }
}

// ===== impl SessionSender =====

impl<Out> SessionSender<Out> {
    /// Queues a message to the controller; waits while 256 are queued.
    ///
    /// # Errors
    ///
    /// [`SessionOver`] when the session is over.
    ///
    /// # Cancel safety
    ///
    /// Cancel safe: a dropped future has queued nothing.
    pub async fn send(&self, message: Out) -> Result<(), SessionOver<Out>> {
        send(&self.link, message).await
    }

    /// Queues a message to the controller now.
    ///
    /// # Errors
    ///
    /// [`TrySendError`] when the session is over, or 256 messages are queued.
    pub fn try_send(&self, message: Out) -> Result<(), TrySendError<Out>> {
        self.link.try_send(message).map_err(|message| TrySendError {
            message,
            is_over: self.link.is_over(),
        })
    }

    /// Says whether the session is over.
    #[must_use]
    pub fn is_over(&self) -> bool {
        self.link.is_over()
    }

    /// Waits until the session is over.
    ///
    /// # Cancel safety
    ///
    /// Cancel safe.
    pub async fn over(&self) {
        self.link.over().cancelled().await;
    }
}

impl<Out> Clone for SessionSender<Out> {
    fn clone(&self) -> Self {
        Self {
            link: self.link.clone(),
        }
    }
}

impl<Out> fmt::Debug for SessionSender<Out> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SessionSender")
            .field("link", &self.link)
            .finish()
    }
}

async fn send<Out>(link: &Link<Out>, message: Out) -> Result<(), SessionOver<Out>> {
    link.send(message)
        .await
        .map_err(|message| SessionOver { message })
}

// ===== impl SessionOver, TrySendError =====

impl<Out> fmt::Debug for SessionOver<Out> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SessionOver").finish_non_exhaustive()
    }
}

impl<Out> fmt::Display for SessionOver<Out> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("message not queued: the session is over")
    }
}

impl<Out> std::error::Error for SessionOver<Out> {}

impl<Out> fmt::Debug for TrySendError<Out> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("TrySendError")
            .field("is_over", &self.is_over)
            .finish_non_exhaustive()
    }
}

impl<Out> fmt::Display for TrySendError<Out> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(if self.is_over {
            "message not queued: the session is over"
        } else {
            "message not queued: the queue is full"
        })
    }
}

impl<Out> std::error::Error for TrySendError<Out> {}
