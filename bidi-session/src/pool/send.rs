//! Messages to one worker.

use crate::connector::Connector;
use crate::error::{SendError, SendErrorKind};
use crate::outbox::{OutboxSender, Refused};
use crate::pool::Pool;

/// An outbox, the message for it, and the message's size, bytes.
type Addressed<Out> = (OutboxSender<Out>, Out, usize);

impl<C: Connector> Pool<C> {
    /// Queues a message on the worker's present session, or gives it back.
    ///
    /// A queued message is sent on this session or never: it is dropped when the
    /// session ends first.
    ///
    /// # Errors
    ///
    /// [`SendError`] with the message; only [`Full`](SendErrorKind::Full) and
    /// [`NotConnected`](SendErrorKind::NotConnected) are worth waiting for.
    pub fn try_send(
        &self,
        worker: impl AsRef<str>,
        message: C::Out,
    ) -> Result<(), SendError<C::Out>> {
        let (outbox, message, bytes) = self.address(worker.as_ref(), message)?;
        outbox.try_push(message, bytes).map_err(to_send_error)
    }

    /// Queues a message on the worker's present session as soon as there is room.
    ///
    /// # Errors
    ///
    /// As [`try_send`](Self::try_send), without `Full`: it waits for room, but not
    /// for a session.
    ///
    /// # Cancel safety
    ///
    /// Dropping the future drops the message; it is then not queued.
    pub async fn send(
        &self,
        worker: impl AsRef<str>,
        message: C::Out,
    ) -> Result<(), SendError<C::Out>> {
        let (outbox, message, bytes) = self.address(worker.as_ref(), message)?;
        outbox.push(message, bytes).await.map_err(to_send_error)
    }

    /// Finds the outbox of a message and its size, or gives it back.
    fn address(
        &self,
        worker: &str,
        message: C::Out,
    ) -> Result<Addressed<C::Out>, SendError<C::Out>> {
        match self.outbox(worker) {
            Ok(outbox) => {
                let bytes = self.shared().connector.size(&message);
                Ok((outbox, message, bytes))
            }
            Err(kind) => Err(SendError { kind, message }),
        }
    }

    fn outbox(&self, worker: &str) -> Result<OutboxSender<C::Out>, SendErrorKind> {
        match self.shared().session(worker) {
            Some(session) => Ok(session.ok_or(SendErrorKind::NotConnected)?.1),
            None if self.shared().is_closed() => Err(SendErrorKind::Closed),
            None => Err(SendErrorKind::Unknown),
        }
    }
}

/// Says what a refusal of an outbox is to a sender.
pub(crate) fn kind_of(refused: Refused) -> SendErrorKind {
    match refused {
        Refused::Full => SendErrorKind::Full,
        Refused::TooLarge => SendErrorKind::TooLarge,
        Refused::Closed => SendErrorKind::NotConnected,
    }
}

fn to_send_error<T>((refused, message): (Refused, T)) -> SendError<T> {
    let kind = kind_of(refused);
    SendError { kind, message }
}
