//! What is known of one worker at a moment.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use crate::error::seconds;

/// What is known of one worker at the moment of the call.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct WorkerState {
    /// What the pool does with it.
    pub phase: Phase,
    /// The generation of its last attempt or session; zero before the first.
    pub generation: u64,
    /// For how long there has been this session; or none, since the last one ended or
    /// since the worker was inserted.
    pub elapsed: Duration,
    /// Attempts that failed since the last healthy session.
    pub attempts: u32,
    /// Why the last attempt failed or the last session ended.
    pub last_error: Option<Arc<str>>,
    /// Time until the next attempt, while one is planned.
    pub retry_in: Option<Duration>,
}

/// What the pool does with a worker.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Phase {
    /// The next attempt is planned.
    Waiting,
    /// An attempt runs.
    Connecting,
    /// There is a session.
    Up,
    /// The worker refused the last attempt; the next one is planned, more slowly.
    Blocked,
    /// The worker was removed.
    Removed,
}

// ===== impl WorkerState =====

impl WorkerState {
    /// Returns the generation of the session, while there is one.
    #[must_use]
    pub fn session(&self) -> Option<u64> {
        (self.phase == Phase::Up).then_some(self.generation)
    }
}

impl fmt::Display for WorkerState {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} for {}", self.phase, seconds(self.elapsed))?;
        if self.attempts > 0 {
            write!(f, ", {} failed attempts", self.attempts)?;
        }
        if let Some(error) = &self.last_error {
            write!(f, ", last: {error}")?;
        }
        Ok(())
    }
}

// ===== impl Phase =====

impl fmt::Display for Phase {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Waiting => "waiting to connect",
            Self::Connecting => "connecting",
            Self::Up => "up",
            Self::Blocked => "refused",
            Self::Removed => "removed",
        })
    }
}
