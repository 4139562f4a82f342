//! The way to one address: the faults that are set on it, and what they have done.

use std::ops::RangeInclusive;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::sync::Notify;
use tokio::sync::futures::Notified;

use super::counts::FaultCounts;
use crate::connector::Direction;

/// The way to one address.
#[derive(Debug, Default)]
pub(super) struct Line {
    state: Mutex<State>,
    // Messages meet a fault; a copy that is read without the lock.
    is_faulty: AtomicBool,
    changed: Notify,
}

#[derive(Debug, Default)]
struct State {
    dials: Dials,
    to_worker: Way,
    to_pool: Way,
    resets: u64,
    counts: FaultCounts,
}

/// What happens to dials.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum Dials {
    #[default]
    Pass,
    Refuse,
    Hang,
}

/// The faults of one direction.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Way {
    pub(super) is_cut: bool,
    pub(super) is_stalled: bool,
    pub(super) delay: RangeInclusive<Duration>,
    /// Messages that still pass before their connection is reset.
    pub(super) passes: Option<u64>,
}

// ===== impl Line =====

impl Line {
    /// Changes what is set, and tells everyone who uses the line.
    pub(super) fn set(&self, change: impl FnOnce(&mut Dials, &mut Way, &mut Way)) {
        let mut state = self.lock();
        let State {
            dials,
            to_worker,
            to_pool,
            ..
        } = &mut *state;
        change(dials, to_worker, to_pool);
        self.note_faults(&state);
        drop(state);
        self.changed.notify_waiters();
    }

    /// Resets the connections there are.
    pub(super) fn reset(&self) {
        self.lock().resets += 1;
        self.changed.notify_waiters();
    }

    /// Returns how often the line was reset: a connection that began before is over.
    pub(super) fn resets(&self) -> u64 {
        self.lock().resets
    }

    /// Says whether messages meet a fault; cheap.
    pub(super) fn is_faulty(&self) -> bool {
        self.is_faulty.load(Ordering::Acquire)
    }

    pub(super) fn dials(&self) -> Dials {
        self.lock().dials
    }

    pub(super) fn way(&self, direction: Direction) -> Way {
        self.lock().way(direction).clone()
    }

    /// Says whether packets go both ways.
    pub(super) fn is_whole(&self) -> bool {
        let state = self.lock();
        !state.to_worker.is_cut && !state.to_pool.is_cut
    }

    /// Lets a message pass, or says that it resets its connection.
    pub(super) fn pass(&self, direction: Direction) -> bool {
        let mut state = self.lock();
        let passes = &mut state.way(direction).passes;
        match passes {
            Some(0) => *passes = None,
            Some(left) => {
                *left -= 1;
                return true;
            }
            None => return true,
        }
        self.note_faults(&state);
        false
    }

    /// Resolves at the next change; one that comes after this call counts.
    pub(super) fn changed(&self) -> Notified<'_> {
        self.changed.notified()
    }

    pub(super) fn count(&self, count: impl FnOnce(&mut FaultCounts)) {
        count(&mut self.lock().counts);
    }

    pub(super) fn counts(&self) -> FaultCounts {
        self.lock().counts
    }

    fn note_faults(&self, state: &State) {
        let none = Way::default();
        let is_faulty = state.to_worker != none || state.to_pool != none;
        self.is_faulty.store(is_faulty, Ordering::Release);
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        // No user code runs under the lock, so it is consistent even if poisoned.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

// ===== impl State =====

impl State {
    fn way(&mut self, direction: Direction) -> &mut Way {
        match direction {
            Direction::ToWorker => &mut self.to_worker,
            Direction::FromWorker => &mut self.to_pool,
        }
    }
}

// ===== impl Way =====

impl Way {
    /// Says whether messages wait.
    pub(super) fn is_shut(&self) -> bool {
        self.is_cut || self.is_stalled
    }

    /// Returns a delay within the range.
    pub(super) fn delay(&self, random: &mut fastrand::Rng) -> Duration {
        let (least, most) = (*self.delay.start(), *self.delay.end());
        least + most.saturating_sub(least).mul_f64(random.f64())
    }
}

impl Default for Way {
    fn default() -> Self {
        Self {
            is_cut: false,
            is_stalled: false,
            delay: Duration::ZERO..=Duration::ZERO,
            passes: None,
        }
    }
}
