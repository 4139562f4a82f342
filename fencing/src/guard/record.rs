//! The shared state of one guard: the word, its permits and who waits.

use std::fmt;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::sync::Notify;

use crate::alarm::Alarm;
use crate::clock::Clock;
use crate::config::Timing;
use crate::guard::Refused;
use crate::guard::state::{GuardState, Word};
use crate::signal::{Signal, wake_all};

/// One guard as its handles, its permits and the watchdog see it.
pub(crate) struct Record {
    token: u64,
    timing: Timing,
    clock: Clock,
    word: AtomicU64,
    cancelled: Arc<Signal>,
    /// How many permits are held. A permit is counted only while this is locked and
    /// the guard is live, so whoever sees a guard that is not live and a count of
    /// zero under this lock knows that none follows.
    permits: Mutex<usize>,
    idle: Notify,
    /// Wakes the watchdog's thread; a simulation has none.
    alarm: Option<Arc<Alarm>>,
}

// ===== impl Record =====

impl Record {
    pub(crate) fn new(
        token: u64,
        deadline: Duration,
        timing: Timing,
        clock: Clock,
        alarm: Option<Arc<Alarm>>,
    ) -> Self {
        let record = Self {
            token,
            timing,
            clock,
            word: AtomicU64::new(Word::live(deadline).bits()),
            cancelled: Arc::default(),
            permits: Mutex::new(0),
            idle: Notify::new(),
            alarm,
        };
        // Nothing was guarded yet, so there is nothing to close: lost, not closing.
        if record.check().is_err() {
            record.update(Word::lost);
        }
        record
    }

    pub(crate) fn token(&self) -> u64 {
        self.token
    }

    pub(super) fn cancelled(&self) -> &Arc<Signal> {
        &self.cancelled
    }

    pub(super) fn check(&self) -> Result<(), Refused> {
        let (word, now) = self.read();
        if word.may_start(now, self.timing) {
            return Ok(());
        }
        self.refuse()
    }

    pub(super) fn check_finish(&self) -> Result<(), Refused> {
        let (word, now) = self.read();
        if word.may_finish(now, self.timing) {
            return Ok(());
        }
        let state = self.settle();
        Err(Refused::new(self.token, state))
    }

    pub(super) fn remaining(&self) -> Duration {
        loop {
            let (word, now) = self.read();
            if word.may_start(now, self.timing) {
                return self.timing.cancel_at(word.deadline()).saturating_sub(now);
            }
            if self.settle() != GuardState::Live {
                return Duration::ZERO;
            }
        }
    }

    /// Counts a permit, if work may start.
    pub(super) fn begin(&self) -> Result<(), Refused> {
        let mut permits = self.permits();
        self.check()?;
        *permits += 1;
        Ok(())
    }

    /// Takes a permit back.
    pub(super) fn end(&self) {
        let mut permits = self.permits();
        *permits -= 1;
        let is_idle = *permits == 0;
        drop(permits);
        if is_idle {
            wake_all(&self.idle);
        }
    }

    pub(super) fn extend(&self, deadline: Duration) {
        let state = self.update(|word| word.extended(deadline)).state();
        if deadline.is_zero() {
            self.announce(state);
        }
    }

    pub(super) async fn finish(&self) {
        let state = self.update(Word::closed).state();
        self.announce(state);
        loop {
            // Listens before it looks, or it would miss what happens in between.
            let idle = self.idle.notified();
            if let Some(state) = self.try_finish() {
                self.announce(state);
                tracing::info!(token = self.token, ?state, "guarded work has stopped");
                return;
            }
            idle.await;
        }
    }

    /// Applies what time alone has made of the guard, and returns its state.
    pub(crate) fn settle(&self) -> GuardState {
        self.update(|word| word).state()
    }

    /// Does what is due and returns when the next step is, if one follows.
    ///
    /// The watchdog's step. Neither allocates nor takes a lock of this crate.
    pub(crate) fn advance(&self) -> Option<Duration> {
        let word = self.update(|word| word);
        if word.state() != GuardState::Live {
            self.cancelled.fire();
        }
        word.next_change(self.timing)
    }

    /// Returns the number of permits held if the guard is not over.
    pub(crate) fn busy(&self) -> Option<usize> {
        let permits = self.permits();
        let is_over = matches!(self.settle(), GuardState::Finished | GuardState::Lost);
        (!is_over || *permits > 0).then_some(*permits)
    }

    pub(super) fn fmt_as(&self, name: &str, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct(name)
            .field("token", &self.token)
            .field("state", &self.load().state())
            .field("deadline", &self.load().deadline())
            .finish_non_exhaustive()
    }

    /// Refuses for ever: a refusal that a racing renewal could take back would let
    /// one caller stop its work and another one go on.
    #[cold]
    fn refuse(&self) -> Result<(), Refused> {
        match self.settle() {
            GuardState::Live => Ok(()),
            state => Err(Refused::new(self.token, state)),
        }
    }

    fn try_finish(&self) -> Option<GuardState> {
        let permits = self.permits();
        (*permits == 0).then(|| self.update(Word::finished).state())
    }

    /// Tells those who wait, and the thread, about a state that a caller has made.
    fn announce(&self, state: GuardState) {
        if state == GuardState::Live {
            return;
        }
        self.cancelled.fire();
        if let Some(alarm) = &self.alarm {
            alarm.wake();
        }
    }

    /// Applies the passing of time, then `change`, in one step.
    fn update(&self, change: impl Fn(Word) -> Word) -> Word {
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
    fn read(&self) -> (Word, Duration) {
        (self.load(), self.clock.now())
    }

    fn swap(&self, old: u64, new: u64) -> bool {
        let order = Ordering::SeqCst;
        self.word.compare_exchange(old, new, order, order).is_ok()
    }

    fn load(&self) -> Word {
        Word::from_bits(self.word.load(Ordering::SeqCst))
    }

    fn permits(&self) -> MutexGuard<'_, usize> {
        self.permits.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl fmt::Debug for Record {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.fmt_as("Record", f)
    }
}

#[cfg(test)]
mod tests {
    use std::sync::OnceLock;
    use std::sync::atomic::AtomicBool;

    use super::*;
    use crate::config::WatchdogConfig;

    /// The holder of the lock may be stopped: whoever needs it would wait as long.
    #[test]
    fn checks_renewals_losses_and_the_ladder_wait_for_no_lock() {
        let ms = Duration::from_millis;
        let record = Record::new(
            1,
            ms(10_000),
            WatchdogConfig::default().timing(),
            Clock::Simulated(Arc::new(move || ms(5_000))),
            None,
        );
        let locked = record.permits();
        record.check().unwrap();
        record.check_finish().unwrap();
        assert_eq!(record.remaining(), ms(2_500));
        record.extend(ms(12_000));
        assert_eq!(record.advance(), Some(ms(9_500)));
        record.extend(Duration::ZERO);
        assert_eq!(record.advance(), None);
        assert!(record.cancelled().has_fired());
        drop(locked);
    }

    /// A renewal is stopped between its look at the clock and its change; meanwhile
    /// the cancel point passes and a check refuses.
    #[test]
    fn a_refusal_in_the_middle_of_a_renewal_holds() {
        let ms = Duration::from_millis;
        let record: Arc<OnceLock<Record>> = Arc::default();
        let (is_renewing, late) = (
            Arc::new(AtomicBool::default()),
            Arc::new(AtomicBool::default()),
        );
        let refusals = Arc::new(AtomicU64::new(0));
        let clock = Clock::Simulated(Arc::new({
            let (record, is_renewing) = (Arc::clone(&record), Arc::clone(&is_renewing));
            let (late, refusals) = (Arc::clone(&late), Arc::clone(&refusals));
            move || {
                if is_renewing.swap(false, Ordering::SeqCst) {
                    late.store(true, Ordering::SeqCst);
                    record.get().unwrap().check().unwrap_err();
                    refusals.fetch_add(1, Ordering::SeqCst);
                    return ms(7_499);
                }
                ms(if late.load(Ordering::SeqCst) {
                    7_500
                } else {
                    0
                })
            }
        }));
        let timing = WatchdogConfig::default().timing();
        let record = record.get_or_init(|| Record::new(1, ms(10_000), timing, clock, None));
        is_renewing.store(true, Ordering::SeqCst);
        record.extend(ms(20_000));
        assert_eq!(refusals.load(Ordering::SeqCst), 1);
        record.check().unwrap_err();
    }
}
