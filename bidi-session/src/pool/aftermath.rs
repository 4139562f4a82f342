//! What is left to do of a step, none of it under a lock: nearly all is foreign code.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::task::Waker;
use std::time::Duration;

use crate::connector::Connector;
use crate::event::DisconnectReason;
use crate::meters::Step;
use crate::outbox::OutboxSender;
use crate::pool::board::Board;
use crate::pool::slot::{Kill, Slot};

/// What is left to do of a step once no lock is held.
#[must_use]
pub(crate) struct Aftermath<Out> {
    pub(super) outbox: Option<OutboxSender<Out>>,
    pub(super) kill: Option<Kill>,
    pub(super) ended: Option<(u64, DisconnectReason)>,
    pub(super) stale_inputs: u64,
    pub(super) step: Option<Step>,
    // Who waits for events.
    pub(super) reader: Option<Waker>,
}

// ===== impl Aftermath =====

impl<Out> Aftermath<Out> {
    /// Ends the connection, drops what is queued and fails the rounds that wait.
    pub(crate) fn settle<C>(self, slot: &Slot<C>, board: &Board<C::In>, now: Duration)
    where
        C: Connector<Out = Out>,
    {
        // Recorders and wakers are foreign code, too.
        if let Some(step) = self.step {
            slot.announce(step);
        }
        wake(self.reader);
        if let Some(kill) = self.kill
            && catch_unwind(AssertUnwindSafe(kill)).is_err()
        {
            // The loss has to be told all the same.
            tracing::error!(worker = %slot.id(), "the connector's kill switch panicked");
        }
        // Before the rounds are failed: an injection that is under way sees either
        // the closed outbox, or its round is among them.
        if let Some(outbox) = self.outbox {
            outbox.close();
        }
        if let Some((generation, reason)) = self.ended {
            slot.log().ended(now, generation, &reason);
            board.fail(slot.id(), generation, &reason);
        }
    }
}

pub(super) fn wake(waker: Option<Waker>) {
    if let Some(waker) = waker {
        waker.wake();
    }
}
