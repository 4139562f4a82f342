//! The messages of an outbox and their bounds.

use std::collections::VecDeque;
use std::task::Waker;

use super::Refused;

/// What waits in an outbox, and who waits for it.
pub(super) struct Queue<Out> {
    pub(super) items: VecDeque<(Out, usize)>,
    // Queued, reserved and in the reader's batch.
    pub(super) used: Room,
    pub(super) is_closed: bool,
    pub(super) is_finished: bool,
    // Someone was refused for want of room and waits.
    pub(super) is_awaited: bool,
    pub(super) reader: Option<Waker>,
}

/// A number of messages and their bytes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Room {
    pub(crate) count: usize,
    pub(crate) bytes: usize,
}

// ===== impl Queue =====

impl<Out> Queue<Out> {
    pub(super) fn new() -> Self {
        Self {
            items: VecDeque::new(),
            used: Room::default(),
            is_closed: false,
            is_finished: false,
            is_awaited: false,
            reader: None,
        }
    }

    /// Keeps the waker, where it is not the one that is kept: the same task polls again and
    /// again, and a clone would cost as much as the rest.
    pub(super) fn listen(&mut self, waker: &Waker) {
        let known = self.reader.as_ref();
        if !known.is_some_and(|known| known.will_wake(waker)) {
            self.reader = Some(waker.clone());
        }
    }

    /// Gives room back; says whether someone waits for it.
    pub(super) fn release(&mut self, room: Room) -> bool {
        self.used.count -= room.count;
        self.used.bytes -= room.bytes;
        std::mem::take(&mut self.is_awaited)
    }

    pub(super) fn take_room(&mut self, limit: Room, bytes: usize) -> Result<(), Refused> {
        if self.is_closed || self.is_finished {
            return Err(Refused::Closed);
        }
        if bytes > limit.bytes {
            return Err(Refused::TooLarge);
        }
        if self.used.count >= limit.count || self.used.bytes > limit.bytes - bytes {
            return Err(Refused::Full);
        }
        self.used.count += 1;
        self.used.bytes += bytes;
        Ok(())
    }
}
