//! Makes guards and acts on them in time.

mod error;
mod herald;
#[cfg(any(test, feature = "test-util"))]
mod simulation;
mod thread;
mod words;

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use crate::backstop::{DeadMan, Grade};
use crate::clock::Clock;
use crate::config::{Policy, WatchdogConfig};
use crate::guard::{Guard, GuardState, Record};

pub use error::{GuardError, StartError};
#[cfg(any(test, feature = "test-util"))]
pub use simulation::{Action, Simulation};

use thread::Thread;

/// Cancels the work of one leadership at a time before its lease can end, then ends the
/// process if that was not enough.
///
/// It owns threads of the operating system that wake by the boot clock, so that blocked
/// workers of an async runtime and a suspend of the machine do not delay it, and a timer
/// of the kernel, which acts even when the threads do not run. Start it before competing
/// for the lease.
///
/// Only [`Guard::finish`] ends a guard that was live: not a drop of the guard, not one
/// of the watchdog, not a panic in between. What it ends is the process's user code. Bytes
/// that are sent already arrive all the same; let the resource refuse them:
/// [`Fence`](crate::Fence).
///
/// Several elections need several watchdogs.
///
/// Dropping it disarms nothing: with a guard that is live or closing the threads
/// go on until that guard is finished or lost, then they end. Without one they end
/// at once.
#[derive(Debug)]
pub struct Watchdog {
    config: WatchdogConfig,
    clock: Clock,
    slot: Arc<Slot>,
    /// Held while a guard is made: the slot's own lock is left to the thread.
    making: Mutex<()>,
    /// None in a simulation, whose test does the thread's part.
    thread: Option<Thread>,
    dead_man: Arc<DeadMan>,
}

/// The latest guard, shared with whoever acts on it.
#[derive(Debug, Default)]
struct Slot {
    record: Mutex<Option<Arc<Record>>>,
}

// ===== impl Watchdog =====

impl Watchdog {
    /// Starts the watchdog's threads and makes the kernel's timer.
    ///
    /// # Errors
    ///
    /// [`StartError`] when the configuration does not validate, or the system grants
    /// no thread or no timer for it, whatever the policy: nothing could cancel then. Do
    /// not compete for the lease then.
    pub fn start(config: WatchdogConfig) -> Result<Self, StartError> {
        config.validate()?;
        // The timer before the threads, which take its signal.
        let dead_man = dead_man(&config)?;
        let slot = Arc::new(Slot::default());
        let thread = Thread::spawn(Arc::clone(&slot), config.policy)?;
        Ok(Self {
            dead_man: Arc::new(dead_man),
            config,
            clock: Clock::Boot,
            slot,
            making: Mutex::default(),
            thread: Some(thread),
        })
    }

    /// Returns what ends the process at the latest, under [`Policy::Abort`].
    #[must_use]
    pub fn grade(&self) -> Grade {
        self.dead_man.grade()
    }

    /// Returns the time to keep free in every lease: grace and abort budget.
    ///
    /// An election must not be content with a lease in which this, its renewals and
    /// their repetition do not fit.
    #[must_use]
    pub fn reserve(&self) -> Duration {
        self.config.reserve()
    }

    /// Guards the leadership of `token` until `deadline`.
    ///
    /// `deadline` is that of the lease, on the clock of [`boot_time`](crate::boot_time):
    /// [`deadline`](crate::deadline) makes it of when the lease was asked for and the
    /// time to live. One that is too near to start anything is no error: it gives a
    /// guard that is lost already.
    ///
    /// # Errors
    ///
    /// [`GuardError::Busy`] while an earlier guard of this watchdog is neither
    /// finished nor lost, or a permit of it is still held: a process that wins again
    /// never works beside its own old term. Call [`Guard::finish`] on the old one.
    ///
    /// A process that is being ended gets a guard that is lost already.
    pub fn guard(&self, token: u64, deadline: Duration) -> Result<Guard, GuardError> {
        let making = self.making.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(old) = self.slot.get()
            && let Some(permits) = old.busy()
        {
            let token = old.token();
            return Err(GuardError::Busy { token, permits });
        }
        // Nothing takes the end of the process back, which its threads may be late with.
        let is_doomed = self.config.policy == Policy::Abort && self.has_lost();
        let record = Arc::new(Record::new(
            token,
            if is_doomed { Duration::ZERO } else { deadline },
            self.config.timing(),
            self.clock.clone(),
            self.thread.as_ref().map(Thread::alarm),
            Arc::clone(&self.dead_man),
        ));
        if !is_doomed {
            self.dead_man.adopt(record.cell());
            self.slot.set(Arc::clone(&record));
        }
        // Here too, so that a guard that is lost already has cancelled on return.
        record.cancel();
        let is_lost = record.settle() == GuardState::Lost;
        if let Some(thread) = &self.thread {
            thread.wake();
        }
        drop(making);
        tracing::info!(token, is_lost, "work is guarded");
        Ok(Guard::new(record))
    }

    fn has_lost(&self) -> bool {
        self.slot.get().is_some_and(|old| old.has_lost())
    }
}

// ===== impl Slot =====

impl Slot {
    fn get(&self) -> Option<Arc<Record>> {
        self.lock().clone()
    }

    fn set(&self, record: Arc<Record>) {
        let old = self.lock().replace(record);
        // Its work was to stop by time alone, and nobody may have said so yet. Told, and
        // freed, without the lock.
        if let Some(old) = old {
            old.cancel();
        }
    }

    /// Cancels the work of the latest guard, if it is to stop.
    fn cancel(&self) {
        if let Some(record) = self.get() {
            record.cancel();
        }
    }

    fn lock(&self) -> MutexGuard<'_, Option<Arc<Record>>> {
        self.record.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Makes what stands behind the thread, as far as it is wanted and granted.
fn dead_man(config: &WatchdogConfig) -> Result<DeadMan, StartError> {
    match config.policy {
        Policy::Abort => DeadMan::granted(config.backstop).map_err(StartError::Backstop),
        Policy::CancelOnly => Ok(DeadMan::none()),
    }
}

#[cfg(test)]
mod tests;
