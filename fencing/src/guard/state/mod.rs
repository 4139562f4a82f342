//! The states of a guard in one word, and the only transitions between them.
//!
//! ```text
//! Live --cancel point, finish--> Closing --no permit is held--> Finished
//!   |                               |
//!   '-- loss --> Lost <-- loss, ----'
//!                         abort point
//! ```
//!
//! Deadline and state share one word, so that no reader can see one without the
//! other and a transition is one compare-and-swap.

use std::time::Duration;

use crate::config::Timing;

/// Where a guard stands in its life.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum GuardState {
    /// Work may start.
    Live,
    /// Work is cancelled and nothing may start; what is under way may finish
    /// until the abort point. The deadline is frozen.
    Closing,
    /// Everything had stopped in time. Final.
    Finished,
    /// The lease is over, or was over before everything had stopped. Final.
    Lost,
}

/// Deadline and state: the deadline in nanoseconds shifted by one, the low bit
/// says that it is frozen. No deadline is left at zero (lost) and one (finished).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Word(u64);

// ===== impl Word =====

impl Word {
    const LOST: Self = Self(0);
    const FINISHED: Self = Self(1);
    const FROZEN: u64 = 1;
    const MAX_NANOS: u64 = u64::MAX >> 1;

    pub(super) fn live(deadline: Duration) -> Self {
        let nanos = u64::try_from(deadline.as_nanos()).unwrap_or(u64::MAX);
        Self(nanos.min(Self::MAX_NANOS) << 1)
    }

    pub(super) fn from_bits(bits: u64) -> Self {
        Self(bits)
    }

    pub(super) fn bits(self) -> u64 {
        self.0
    }

    pub(super) fn state(self) -> GuardState {
        match self {
            Self::LOST => GuardState::Lost,
            Self::FINISHED => GuardState::Finished,
            Self(bits) if bits & Self::FROZEN == 0 => GuardState::Live,
            Self(_) => GuardState::Closing,
        }
    }

    /// Zero when the guard is over.
    pub(super) fn deadline(self) -> Duration {
        Duration::from_nanos(self.0 >> 1)
    }

    /// Says whether something may start at `now`.
    pub(super) fn may_start(self, now: Duration, timing: Timing) -> bool {
        self.state() == GuardState::Live && now < timing.cancel_at(self.deadline())
    }

    /// Says whether something that has started may still finish at `now`.
    ///
    /// A deadline of zero is never ahead, so the final states need no case.
    pub(super) fn may_finish(self, now: Duration, timing: Timing) -> bool {
        now < timing.abort_at(self.deadline())
    }

    /// What the passing of time alone has made of the guard by `now`.
    pub(super) fn at(self, now: Duration, timing: Timing) -> Self {
        match self.state() {
            GuardState::Finished | GuardState::Lost => self,
            _ if !self.may_finish(now, timing) => Self::LOST,
            GuardState::Live if !self.may_start(now, timing) => self.closed(),
            _ => self,
        }
    }

    /// Moves the deadline of a live guard later, never earlier. Zero is a loss.
    pub(super) fn extended(self, deadline: Duration) -> Self {
        match self.state() {
            _ if deadline.is_zero() => self.lost(),
            GuardState::Live => Self(self.0.max(Self::live(deadline).0)),
            _ => self,
        }
    }

    pub(super) fn closed(self) -> Self {
        match self.state() {
            GuardState::Live => Self(self.0 | Self::FROZEN),
            _ => self,
        }
    }

    pub(super) fn lost(self) -> Self {
        match self.state() {
            GuardState::Finished => self,
            _ => Self::LOST,
        }
    }

    pub(super) fn finished(self) -> Self {
        match self.state() {
            GuardState::Closing => Self::FINISHED,
            _ => self,
        }
    }

    /// The next instant at which time alone changes the guard.
    pub(super) fn next_change(self, timing: Timing) -> Option<Duration> {
        match self.state() {
            GuardState::Live => Some(timing.cancel_at(self.deadline())),
            GuardState::Closing => Some(timing.abort_at(self.deadline())),
            GuardState::Finished | GuardState::Lost => None,
        }
    }
}

#[cfg(test)]
mod tests;
