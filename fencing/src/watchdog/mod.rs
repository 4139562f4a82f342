//! Makes guards and acts on them in time.

mod error;
#[cfg(any(test, feature = "test-util"))]
mod simulation;
mod thread;

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use crate::clock::Clock;
use crate::config::WatchdogConfig;
use crate::guard::{Guard, Record};

pub use error::{GuardError, StartError};
#[cfg(any(test, feature = "test-util"))]
pub use simulation::{Action, Simulation};

use thread::Thread;

/// Cancels the work of one leadership at a time before its lease can end.
///
/// It owns a thread of the operating system that wakes by the boot clock, so that
/// blocked workers of an async runtime and a suspend of the machine do not delay
/// it. Start it before competing for the lease.
///
/// **In this version it only cancels** ([`Policy::CancelOnly`](crate::Policy)): it
/// gives no bound on work that ignores the cancellation. To make late effects
/// impossible, let the resource refuse them: [`Fence`](crate::Fence).
///
/// Several elections need several watchdogs.
///
/// Dropping it disarms nothing: with a guard that is live or closing the thread
/// goes on until that guard is finished or lost, then it ends. Without one it ends
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
}

/// The latest guard, shared with whoever acts on it.
#[derive(Debug, Default)]
struct Slot {
    record: Mutex<Option<Arc<Record>>>,
}

// ===== impl Watchdog =====

impl Watchdog {
    /// Starts the watchdog's thread.
    ///
    /// # Errors
    ///
    /// [`StartError`] when the configuration does not validate, or the system grants
    /// no thread or no timer. Do not compete for the lease then.
    pub fn start(config: WatchdogConfig) -> Result<Self, StartError> {
        config.validate()?;
        let slot = Arc::new(Slot::default());
        let thread = Thread::spawn(Arc::clone(&slot))?;
        Ok(Self {
            config,
            clock: Clock::Boot,
            slot,
            making: Mutex::default(),
            thread: Some(thread),
        })
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
    /// `deadline` is a reading of [`boot_time`](crate::boot_time) taken before the
    /// lease was asked for, plus the time to live that was granted. One that is too
    /// near to start anything is no error: it gives a guard that is lost already.
    ///
    /// # Errors
    ///
    /// [`GuardError::Busy`] while an earlier guard of this watchdog is neither
    /// finished nor lost, or a permit of it is still held: a process that wins again
    /// never works beside its own old term. Call [`Guard::finish`] on the old one.
    pub fn guard(&self, token: u64, deadline: Duration) -> Result<Guard, GuardError> {
        let making = self.making.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(old) = self.slot.get()
            && let Some(permits) = old.busy()
        {
            let token = old.token();
            return Err(GuardError::Busy { token, permits });
        }
        let record = Arc::new(Record::new(
            token,
            deadline,
            self.config.timing(),
            self.clock.clone(),
            self.thread.as_ref().map(Thread::alarm),
        ));
        self.slot.set(Arc::clone(&record));
        // Here too, so that a guard that is lost already has cancelled on return.
        let is_lost = record.advance().is_none();
        if let Some(thread) = &self.thread {
            thread.wake();
        }
        drop(making);
        tracing::info!(token, is_lost, "work is guarded");
        Ok(Guard::new(record))
    }
}

// ===== impl Slot =====

impl Slot {
    fn get(&self) -> Option<Arc<Record>> {
        self.lock().clone()
    }

    fn set(&self, record: Arc<Record>) {
        let old = self.lock().replace(record);
        // Freed without the lock.
        drop(old);
    }

    /// Does what is due and returns when to look again, if there is a live guard.
    fn advance(&self) -> Option<Duration> {
        self.get().and_then(|record| record.advance())
    }

    fn lock(&self) -> MutexGuard<'_, Option<Arc<Record>>> {
        self.record.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
