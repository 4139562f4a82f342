//! Why the pool refuses, and what to do about it.

use std::error::Error;
use std::fmt;
use std::time::Duration;

use crate::event::DisconnectReason;
use crate::state::WorkerState;
use crate::worker::WorkerId;

/// Refuses a message and gives it back.
#[derive(Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct SendError<T> {
    /// To whom.
    pub worker: WorkerId,
    /// What to do about it.
    pub kind: SendErrorKind,
    /// The message that was not queued.
    pub message: T,
}

/// Why a message was not queued.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum SendErrorKind {
    /// The pool does not have this worker.
    Unknown,
    /// The worker has no session now. Wait for one.
    NotConnected,
    /// The session's outbox is full: the worker is slow. Wait for room.
    Full,
    /// The message can never be sent: it is larger than the largest that the transport
    /// sends, or than a whole outbox. The session stays up.
    TooLarge {
        /// Its size, bytes.
        size: usize,
        /// The lower of the two limits, bytes.
        limit: usize,
    },
    /// The pool is closed.
    Closed,
}

/// Why a round was not injected; nothing was queued to any worker.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum InjectError {
    /// Some workers cannot take the message, each with its reason.
    NotQueued {
        /// Every such worker, in the order of the targets.
        refused: Vec<(WorkerId, SendErrorKind)>,
    },
    /// The id is not above the last one.
    IdUsed {
        /// The last id.
        last: u64,
    },
    /// The pool is closed.
    Closed,
}

/// Why a round has no complete set of answers.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum RoundError {
    /// Workers were lost before they answered.
    Failed {
        /// Each one that failed within 20 ms of the first, with its reason.
        failures: Vec<(WorkerId, DisconnectReason)>,
    },
    /// The time was up.
    TimedOut {
        /// Who had not answered, in the order of the targets.
        missing: Vec<WorkerId>,
    },
    /// The pool was closed.
    Closed,
}

/// Says which workers have no session, since when and why.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct NotReady {
    /// Each missing worker; `None` for one that the pool does not have.
    pub missing: Vec<(WorkerId, Option<WorkerState>)>,
    /// Whether the pool is closed.
    pub is_closed: bool,
}

/// A setting is out of its range; the text names it with its number.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct ConfigError {
    pub(crate) text: String,
}

// ===== impl SendError =====

impl<T> fmt::Debug for SendError<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SendError")
            .field("worker", &self.worker)
            .field("kind", &self.kind)
            .finish_non_exhaustive()
    }
}

impl<T> fmt::Display for SendError<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "message to {} not queued: {}", self.worker, self.kind)
    }
}

impl<T> Error for SendError<T> {}

// ===== impl SendErrorKind =====

impl fmt::Display for SendErrorKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Unknown => f.write_str("unknown worker"),
            Self::NotConnected => f.write_str("no session"),
            Self::Full => f.write_str("the outbox is full"),
            Self::TooLarge { size, limit } => {
                write!(f, "{size} bytes, more than the limit of {limit}")
            }
            Self::Closed => f.write_str("the pool is closed"),
        }
    }
}

// ===== impl InjectError =====

impl fmt::Display for InjectError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NotQueued { refused } => {
                f.write_str("nothing was injected: ")?;
                list(f, refused.iter().map(|(worker, why)| (worker, why)))
            }
            Self::IdUsed { last } => write!(f, "the round's id is not above {last}, the last one"),
            Self::Closed => f.write_str("the pool is closed"),
        }
    }
}

impl Error for InjectError {}

// ===== impl RoundError =====

impl fmt::Display for RoundError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Failed { failures } => {
                f.write_str("workers were lost in the round: ")?;
                list(f, failures.iter().map(|(worker, why)| (worker, why)))
            }
            Self::TimedOut { missing } => {
                f.write_str("no answer in time from ")?;
                for (place, worker) in missing.iter().enumerate() {
                    let comma = if place > 0 { ", " } else { "" };
                    write!(f, "{comma}{worker}")?;
                }
                Ok(())
            }
            Self::Closed => f.write_str("the pool is closed"),
        }
    }
}

impl Error for RoundError {}

// ===== impl NotReady =====

impl fmt::Display for NotReady {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.is_closed {
            return f.write_str("the pool is closed");
        }
        f.write_str("not ready: ")?;
        list(
            f,
            self.missing
                .iter()
                .map(|(worker, state)| (worker, Missing(state))),
        )
    }
}

impl Error for NotReady {}

struct Missing<'a>(&'a Option<WorkerState>);

impl fmt::Display for Missing<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0 {
            None => f.write_str("unknown worker"),
            Some(state) => fmt::Display::fmt(state, f),
        }
    }
}

// ===== impl ConfigError =====

impl fmt::Display for ConfigError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

impl Error for ConfigError {}

fn list<'a>(
    f: &mut fmt::Formatter<'_>,
    entries: impl Iterator<Item = (&'a WorkerId, impl fmt::Display)>,
) -> fmt::Result {
    for (place, (worker, why)) in entries.enumerate() {
        let comma = if place > 0 { ", " } else { "" };
        write!(f, "{comma}{worker} ({why})")?;
    }
    Ok(())
}

/// Rounds to what is worth reading.
pub(crate) fn seconds(duration: Duration) -> String {
    format!("{:.1} s", duration.as_secs_f64())
}
