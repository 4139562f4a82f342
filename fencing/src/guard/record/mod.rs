//! The shared state of one guard: the word, its permits and who waits.

use std::fmt;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, TryLockError};
use std::time::Duration;

use tokio::sync::Notify;

use crate::alarm::Alarm;
use crate::backstop::DeadMan;
use crate::clock::Clock;
use crate::config::Timing;
use crate::guard::Refused;
use crate::guard::cell::Cell;
use crate::guard::state::{GuardState, Word};
use crate::signal::{Signal, hear};

/// One guard as its handles, its permits and the watchdog see it.
pub(crate) struct Record {
    token: u64,
    cell: Arc<Cell>,
    /// The loss was told, not found by the clock.
    is_tripped: AtomicBool,
    cancelled: Arc<Signal>,
    /// How many permits are held. A permit is counted only while this is locked and
    /// the guard is live, so whoever sees a guard that is not live and a count of
    /// zero under this lock knows that none follows.
    permits: Mutex<usize>,
    idle: Notify,
    /// Wakes the watchdog's thread; a simulation has none.
    alarm: Option<Arc<Alarm>>,
    backstop: Arc<DeadMan>,
}

// ===== impl Record =====

impl Record {
    pub(crate) fn new(
        token: u64,
        deadline: Duration,
        timing: Timing,
        clock: Clock,
        alarm: Option<Arc<Alarm>>,
        backstop: Arc<DeadMan>,
    ) -> Self {
        Self {
            token,
            cell: Arc::new(Cell::new(deadline, timing, clock)),
            is_tripped: AtomicBool::new(false),
            cancelled: Arc::default(),
            permits: Mutex::new(0),
            idle: Notify::new(),
            alarm,
            backstop,
        }
    }

    pub(crate) fn token(&self) -> u64 {
        self.token
    }

    pub(super) fn cancelled(&self) -> &Arc<Signal> {
        &self.cancelled
    }

    pub(super) fn check(&self) -> Result<(), Refused> {
        let (word, now) = self.cell.read();
        if word.may_start(now, self.timing()) {
            return Ok(());
        }
        self.refuse()
    }

    pub(super) fn check_finish(&self) -> Result<(), Refused> {
        let (word, now) = self.cell.read();
        if word.may_finish(now, self.timing()) {
            return Ok(());
        }
        let state = self.settle();
        Err(Refused::new(self.token, state))
    }

    pub(super) fn remaining(&self) -> Duration {
        loop {
            let (word, now) = self.cell.read();
            if word.may_start(now, self.timing()) {
                return self.timing().cancel_at(word.deadline()).saturating_sub(now);
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
            self.idle.notify_waiters();
        }
    }

    pub(super) fn extend(&self, deadline: Duration) {
        if deadline.is_zero() {
            self.is_tripped.store(true, Ordering::SeqCst);
        }
        let state = self.cell.extend(deadline);
        if state != GuardState::Live {
            // Before anything that may hold this caller up.
            self.ring();
        }
        // In this very call: a thread to do it would come too late on a busy machine, and
        // the kernel would end a healthy process.
        self.backstop.follow();
        if deadline.is_zero() && state != GuardState::Live {
            self.cancelled.fire();
        }
    }

    pub(super) async fn finish(&self) {
        let state = self.update(Word::closed).state();
        self.announce(state);
        loop {
            // Listens before it looks, or it would miss what happens in between.
            let idle = self.idle.notified();
            if let Some(state) = self.try_finish() {
                self.backstop.follow();
                self.announce(state);
                tracing::info!(token = self.token, ?state, "guarded work has stopped");
                return;
            }
            hear(idle).await;
        }
    }

    /// Applies what time alone has made of the guard, and returns its state.
    pub(crate) fn settle(&self) -> GuardState {
        self.cell.settle()
    }

    /// Applies what time alone has made of the guard, and returns its state and when it
    /// changes next, if it does.
    ///
    /// The watchdog's step. Neither allocates, nor takes a lock, nor calls foreign code.
    pub(crate) fn advance(&self) -> (GuardState, Option<Duration>) {
        let word = self.update(|word| word);
        (word.state(), word.next_change(self.timing()))
    }

    /// Cancels the work if it is to stop. Runs the wakers of those who wait.
    pub(crate) fn cancel(&self) {
        if self.settle() != GuardState::Live {
            self.cancelled.fire();
        }
    }

    pub(crate) fn cell(&self) -> &Arc<Cell> {
        &self.cell
    }

    /// Says whether something was guarded and the lease is over.
    pub(crate) fn has_lost(&self) -> bool {
        self.cell.was_live() && self.settle() == GuardState::Lost
    }

    /// Says whether the loss was told, not found by the clock.
    pub(crate) fn is_tripped(&self) -> bool {
        self.is_tripped.load(Ordering::SeqCst)
    }

    /// Returns the abort point of the latest deadline.
    pub(crate) fn abort_at(&self) -> Duration {
        self.cell.abort_at()
    }

    /// Returns the kill point of the latest deadline.
    pub(crate) fn kill_at(&self) -> Duration {
        self.cell.kill_at()
    }

    /// Makes up for a caller that is held up between its change and the timer.
    pub(crate) fn try_follow(&self) {
        self.backstop.try_follow();
    }

    /// Returns the number of permits held, unless somebody is about to change it.
    pub(crate) fn try_count(&self) -> Option<usize> {
        match self.permits.try_lock() {
            Ok(permits) => Some(*permits),
            Err(TryLockError::Poisoned(poisoned)) => Some(*poisoned.into_inner()),
            Err(TryLockError::WouldBlock) => None,
        }
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
            .field("state", &self.cell.load().state())
            .field("deadline", &self.cell.load().deadline())
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
        // The thread first: a waker is foreign code, which may not come back.
        self.ring();
        self.cancelled.fire();
    }

    fn ring(&self) {
        if let Some(alarm) = &self.alarm {
            alarm.wake();
        }
    }

    fn update(&self, change: impl Fn(Word) -> Word) -> Word {
        self.cell.update(change)
    }

    fn timing(&self) -> Timing {
        self.cell.timing()
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
mod tests;
