//! Messages to one worker.

use crate::connector::Connector;
use crate::error::{SendError, SendErrorKind};
use crate::outbox::{OutboxSender, Refused};
use crate::pool::{Pool, Shared};

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
        let worker = worker.as_ref();
        let (outbox, message, bytes) = self.address(worker, message)?;
        let pushed = outbox.try_push(message, bytes);
        pushed.map_err(|refused| self.to_send_error(worker, bytes, refused))
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
        let worker = worker.as_ref();
        let (outbox, message, bytes) = self.address(worker, message)?;
        let pushed = outbox.push(message, bytes).await;
        pushed.map_err(|refused| self.to_send_error(worker, bytes, refused))
    }

    /// Finds the outbox of a message and its size, or gives it back.
    fn address(
        &self,
        worker: &str,
        message: C::Out,
    ) -> Result<Addressed<C::Out>, SendError<C::Out>> {
        let refuse = |kind, message| SendError {
            worker: worker.into(),
            kind,
            message,
        };
        let outbox = match self.outbox(worker) {
            Ok(outbox) => outbox,
            Err(kind) => return Err(refuse(kind, message)),
        };
        let size = self.shared().connector.size(&message);
        match self.shared().check_size(size) {
            Ok(()) => Ok((outbox, message, size)),
            Err(kind) => Err(refuse(kind, message)),
        }
    }

    fn outbox(&self, worker: &str) -> Result<OutboxSender<C::Out>, SendErrorKind> {
        let Some(slot) = self.shared().slot(worker) else {
            let is_closed = self.shared().is_closed();
            return Err(if is_closed {
                SendErrorKind::Closed
            } else {
                SendErrorKind::Unknown
            });
        };
        let session = slot.session().ok_or(SendErrorKind::NotConnected)?;
        Ok(session.1)
    }

    fn to_send_error<T>(
        &self,
        worker: &str,
        size: usize,
        (refused, message): (Refused, T),
    ) -> SendError<T> {
        SendError {
            worker: worker.into(),
            kind: self.shared().kind_of(refused, size),
            message,
        }
    }
}

impl<C: Connector> Shared<C> {
    /// Refuses a message that no session could carry.
    pub(crate) fn check_size(&self, size: usize) -> Result<(), SendErrorKind> {
        let limit = self.max_message_bytes();
        if size > limit {
            return Err(SendErrorKind::TooLarge { size, limit });
        }
        Ok(())
    }

    /// Says what a refusal of an outbox is to the sender of a message of this size.
    pub(crate) fn kind_of(&self, refused: Refused, size: usize) -> SendErrorKind {
        match refused {
            Refused::Full => SendErrorKind::Full,
            Refused::TooLarge => SendErrorKind::TooLarge {
                size,
                limit: self.max_message_bytes(),
            },
            Refused::Closed => SendErrorKind::NotConnected,
        }
    }

    fn max_message_bytes(&self) -> usize {
        self.connector.max_size().min(self.config.outbox_bytes)
    }
}
