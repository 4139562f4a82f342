//! What the log says of one worker: a line a minute on average, whatever happens.

use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use crate::connector::{OpenClass, OpenError};
use crate::core::damper::{Class, Damper, Quiet};
use crate::event::DisconnectReason;
use crate::worker::WorkerId;

/// The log of one worker. Lines that are kept from it are written at the debug level,
/// and counted in the next one.
#[derive(Debug)]
pub(crate) struct Log {
    worker: WorkerId,
    damper: Mutex<Damper>,
}

/// Writes one line, at this level where it is due.
macro_rules! line {
    ($level:ident, $log:expr, $quiet:expr, $text:literal, $($field:tt)*) => {
        match $quiet {
            Some(Quiet { attempts_failed, sessions_ended, .. }) => tracing::$level!(
                worker = %$log.worker,
                $($field)*,
                attempts_failed,
                sessions_ended,
                $text
            ),
            None => tracing::debug!(worker = %$log.worker, $($field)*, $text),
        }
    };
}

// ===== impl Log =====

impl Log {
    pub(crate) fn new(worker: WorkerId) -> Self {
        Self {
            worker,
            damper: Mutex::default(),
        }
    }

    pub(crate) fn began(&self, now: Duration, generation: u64, incarnation: Option<u64>) {
        let quiet = self.lock().note(now, Class::Began);
        line!(info, self, quiet, "session began", generation, ?incarnation);
    }

    pub(crate) fn ended(&self, now: Duration, generation: u64, reason: &DisconnectReason) {
        let quiet = self.lock().note(now, Class::Ended);
        line!(info, self, quiet, "session ended", generation, %reason);
    }

    pub(crate) fn failed(&self, now: Duration, generation: u64, error: &OpenError) {
        let class = match error.class {
            OpenClass::Unreachable => Class::Unreachable,
            OpenClass::Refused | OpenClass::TermTaken => Class::Refused,
            OpenClass::HigherTerm(_) => Class::HigherTerm,
        };
        let quiet = self.lock().note(now, class);
        line!(warn, self, quiet, "attempt failed", generation, %error);
    }

    pub(crate) fn panicked(&self, now: Duration, generation: u64, is_session: bool) {
        let class = if is_session {
            Class::SessionPanicked
        } else {
            Class::AttemptPanicked
        };
        let quiet = self.lock().note(now, class);
        line!(error, self, quiet, "the connector panicked", generation);
    }

    /// Returns when a line that was kept from the log may be told, if one was.
    pub(crate) fn owed_at(&self) -> Option<Duration> {
        self.lock().owed_at()
    }

    /// Says that a session is up whose beginning was kept from the log.
    pub(crate) fn pay(&self, now: Duration, generation: u64) {
        let quiet = self.lock().pay(now);
        if quiet.is_some() {
            line!(info, self, quiet, "session is up", generation);
        }
    }

    fn lock(&self) -> MutexGuard<'_, Damper> {
        self.damper.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
