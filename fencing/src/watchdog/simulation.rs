//! A watchdog on a clock that a test moves.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use crate::backstop::DeadMan;
use crate::clock::Clock;
use crate::config::{Policy, WatchdogConfig};
use crate::guard::{GuardState, Record};
use crate::watchdog::{Slot, StartError, Watchdog};

/// What a simulated watchdog has done.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Action {
    /// It has cancelled the work under this token.
    #[non_exhaustive]
    Cancelled {
        /// Token of the guard.
        token: u64,
        /// Reading of the simulated clock.
        at: Duration,
    },
    /// The guard of this token is lost.
    #[non_exhaustive]
    Lost {
        /// Token of the guard.
        token: u64,
        /// Reading of the simulated clock.
        at: Duration,
    },
    /// A real watchdog would have ended the process, with
    /// [`EXIT_CODE`](crate::EXIT_CODE).
    #[non_exhaustive]
    Ended {
        /// Token of the guard.
        token: u64,
        /// Reading of the simulated clock.
        at: Duration,
    },
}

/// Does the part of the thread of a simulated watchdog, when the test says so.
#[derive(Clone, Debug)]
pub struct Simulation {
    slot: Arc<Slot>,
    clock: Clock,
    policy: Policy,
    log: Arc<Mutex<Log>>,
}

#[derive(Debug, Default)]
struct Log {
    actions: Vec<Action>,
    /// The guard of the latest actions and the state it was seen in.
    seen: Option<(Arc<Record>, GuardState)>,
}

// ===== impl Watchdog =====

impl Watchdog {
    /// Makes a watchdog on a clock that the test moves, and its [`Simulation`].
    ///
    /// Guards of it read `clock`. It has no thread and arms no timer: call
    /// [`Simulation::tick`] after moving the clock.
    ///
    /// # Errors
    ///
    /// [`StartError::Config`] when the configuration does not validate.
    ///
    /// # Examples
    ///
    /// ```
    /// use std::sync::{Arc, Mutex};
    /// use std::time::Duration;
    ///
    /// use fencing::{Watchdog, WatchdogConfig};
    ///
    /// let now = Arc::new(Mutex::new(Duration::from_secs(100)));
    /// let clock = { let now = Arc::clone(&now); move || *now.lock().unwrap() };
    /// let (watchdog, simulation) = Watchdog::simulated(WatchdogConfig::default(), clock)?;
    /// let guard = watchdog.guard(1, Duration::from_secs(110))?;
    /// assert!(guard.check().is_ok());
    /// *now.lock().unwrap() += Duration::from_secs(3600);
    /// simulation.tick();
    /// assert!(guard.check().is_err());
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn simulated(
        config: WatchdogConfig,
        clock: impl Fn() -> Duration + Send + Sync + 'static,
    ) -> Result<(Self, Simulation), StartError> {
        config.validate()?;
        let clock = Clock::Simulated(Arc::new(clock));
        let slot = Arc::new(Slot::default());
        let simulation = Simulation {
            slot: Arc::clone(&slot),
            clock: clock.clone(),
            policy: config.policy,
            log: Arc::default(),
        };
        let watchdog = Self {
            config,
            clock,
            slot,
            making: Mutex::default(),
            thread: None,
            dead_man: Arc::new(DeadMan::none()),
        };
        Ok((watchdog, simulation))
    }
}

// ===== impl Simulation =====

impl Simulation {
    /// Does what is due at the present reading of the clock, and returns when to
    /// call again if the guard goes on.
    ///
    /// Sees the latest guard only: call it before making another one.
    pub fn tick(&self) -> Option<Duration> {
        let record = self.slot.get()?;
        let (_, next) = record.advance();
        record.cancel();
        self.record();
        next
    }

    /// Returns what has been done up to the latest [`tick`](Self::tick), oldest
    /// first.
    #[must_use]
    pub fn actions(&self) -> Vec<Action> {
        self.log().actions.clone()
    }

    fn record(&self) {
        let Some(record) = self.slot.get() else {
            return;
        };
        let mut log = self.log();
        let before = match log.seen.take() {
            Some((seen, state)) if Arc::ptr_eq(&seen, &record) => state,
            _ => GuardState::Live,
        };
        let state = record.settle();
        let (token, at) = (record.token(), self.clock.now());
        if before == GuardState::Live && state != GuardState::Live {
            log.actions.push(Action::Cancelled { token, at });
        }
        if before != state && state == GuardState::Lost {
            log.actions.push(Action::Lost { token, at });
            if self.policy == Policy::Abort && record.has_lost() {
                log.actions.push(Action::Ended { token, at });
            }
        }
        log.seen = Some((record, state));
    }

    fn log(&self) -> MutexGuard<'_, Log> {
        self.log.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
