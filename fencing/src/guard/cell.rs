//! The one word of a guard, with the clock that it is read by.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use crate::backstop::{Wish, Wishes};
use crate::clock::Clock;
use crate::config::{KILL_MARGIN, LOST_GRACE, Timing};
use crate::guard::state::{GuardState, Word};

/// State and deadline of one guard.
#[derive(Debug)]
pub(crate) struct Cell {
    word: AtomicU64,
    /// The latest deadline, nanoseconds: a loss forgets it.
    latest: AtomicU64,
    timing: Timing,
    clock: Clock,
    /// Whether anything was guarded: a guard can be made too late.
    was_live: bool,
}

// ===== impl Cell =====

impl Cell {
    pub(super) fn new(deadline: Duration, timing: Timing, clock: Clock) -> Self {
        let word = Word::live(deadline);
        // Nothing was guarded yet, so there is nothing to close: lost, not closing.
        let was_live = word.may_start(clock.now(), timing);
        let word = if was_live { word } else { word.lost() };
        Self {
            latest: AtomicU64::new(nanos(deadline)),
            word: AtomicU64::new(word.bits()),
            timing,
            clock,
            was_live,
        }
    }

    pub(super) fn timing(&self) -> Timing {
        self.timing
    }

    pub(super) fn was_live(&self) -> bool {
        self.was_live
    }

    /// Moves the deadline of a live guard later, never earlier. Zero is a loss.
    pub(crate) fn extend(&self, deadline: Duration) -> GuardState {
        let state = self.update(|word| word.extended(deadline)).state();
        if state == GuardState::Live {
            self.latest.fetch_max(nanos(deadline), Ordering::SeqCst);
        }
        state
    }

    /// Returns the abort point of the latest deadline.
    pub(super) fn abort_at(&self) -> Duration {
        let latest = Duration::from_nanos(self.latest.load(Ordering::SeqCst));
        self.timing.abort_at(latest)
    }

    /// Returns the kill point of the latest deadline.
    pub(super) fn kill_at(&self) -> Duration {
        let latest = Duration::from_nanos(self.latest.load(Ordering::SeqCst));
        latest.saturating_sub(KILL_MARGIN)
    }

    /// Finishes without telling anybody, as a caller that is held up.
    #[cfg(test)]
    pub(crate) fn finish(&self) {
        self.update(Word::closed);
        self.update(Word::finished);
    }

    /// Applies what time alone has made of the guard, and returns its state.
    pub(super) fn settle(&self) -> GuardState {
        self.update(|word| word).state()
    }

    /// Applies the passing of time, then `change`, in one step.
    pub(super) fn update(&self, change: impl Fn(Word) -> Word) -> Word {
        loop {
            let (old, now) = self.read();
            let new = change(old.at(now, self.timing));
            let (old, bits) = (old.bits(), new.bits());
            if old == bits || self.swap(old, bits) {
                return new;
            }
        }
    }

    /// Loads the deadline first and reads the clock second: after a pause between
    /// the two, the other order would find any deadline ahead of an old time.
    pub(super) fn read(&self) -> (Word, Duration) {
        (self.load(), self.clock.now())
    }

    pub(super) fn load(&self) -> Word {
        Word::from_bits(self.word.load(Ordering::SeqCst))
    }

    fn swap(&self, old: u64, new: u64) -> bool {
        let order = Ordering::SeqCst;
        self.word.compare_exchange(old, new, order, order).is_ok()
    }
}

impl Wishes for Arc<Cell> {
    fn wish(&self) -> Wish {
        let word = self.load();
        match word.state() {
            GuardState::Live | GuardState::Closing => {
                Wish::At(word.deadline().saturating_sub(KILL_MARGIN))
            }
            GuardState::Lost if self.was_live => Wish::By(self.clock.now() + LOST_GRACE),
            GuardState::Lost | GuardState::Finished => Wish::Never,
        }
    }
}

fn nanos(time: Duration) -> u64 {
    u64::try_from(time.as_nanos()).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::WatchdogConfig;

    const fn ms(millis: u64) -> Duration {
        Duration::from_millis(millis)
    }

    fn cell(deadline: Duration) -> Arc<Cell> {
        let config = WatchdogConfig::for_ttl(ms(10_000));
        let clock = Clock::Simulated(Arc::new(|| ms(5_000)));
        Arc::new(Cell::new(deadline, config.timing(), clock))
    }

    #[test]
    fn the_kernel_is_asked_for_20_ms_before_the_deadline_or_150_ms_after_a_loss() {
        let cell = cell(ms(15_000));
        assert!(cell.was_live());
        assert_eq!(cell.wish(), Wish::At(ms(14_980)));
        assert_eq!(cell.extend(ms(16_000)), GuardState::Live);
        assert_eq!(cell.wish(), Wish::At(ms(15_980)));
        assert_eq!(cell.extend(Duration::ZERO), GuardState::Lost);
        assert_eq!(cell.wish(), Wish::By(ms(5_150)));
        // What is reported of it: the latest deadline that it had.
        assert_eq!(cell.extend(ms(99_000)), GuardState::Lost);
        assert_eq!((cell.abort_at(), cell.kill_at()), (ms(15_500), ms(15_980)));
    }

    #[test]
    fn a_guard_that_was_made_too_late_ends_nothing() {
        let cell = cell(ms(5_001));
        assert!(!cell.was_live());
        assert_eq!(
            (cell.settle(), cell.wish()),
            (GuardState::Lost, Wish::Never)
        );
    }
}
