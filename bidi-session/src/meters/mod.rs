//! What a pool counts for its operator; nothing without the feature `metrics`.
//!
//! Names and labels are in `docs/metrics.md`. No label names a worker, so their number
//! does not grow with the pool.

#[cfg(feature = "metrics")]
mod facade;
#[cfg(not(feature = "metrics"))]
mod silent;

#[cfg(feature = "metrics")]
pub(crate) use self::facade::{Meters, OutboxMeter};
#[cfg(not(feature = "metrics"))]
pub(crate) use self::silent::{Meters, OutboxMeter};

use std::time::Duration;

use crate::connector::{FailureKind, OpenClass};
use crate::error::RoundError;
use crate::event::{DisconnectReason, EventKind};
use crate::state::Phase;

/// What one step of a worker's state machine means to the meters.
#[cfg_attr(
    not(feature = "metrics"),
    expect(dead_code, reason = "only the facade reads it")
)]
#[derive(Clone, Copy, Debug)]
pub(crate) struct Step {
    pub(crate) from: Phase,
    pub(crate) to: Phase,
    pub(crate) attempt: Option<Attempt>,
    pub(crate) lost: Option<Loss>,
    /// Time from the end of the session before to the beginning of this one.
    pub(crate) away: Option<Duration>,
}

/// How an attempt ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Attempt {
    Connected,
    Unreachable,
    Refused,
    TermTaken,
    HigherTerm,
}

/// Why a session ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Loss {
    Closed,
    Failed,
    TooLarge,
    Undecodable,
    Replaced,
    Removed,
    PoolClosed,
}

/// How a round ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum End {
    Complete,
    Failed,
    TimedOut,
    Closed,
    Dropped,
}

// ===== impl Step =====

impl Step {
    /// Reads what is told of a step, which is one thing of each kind at most.
    pub(crate) fn new<In>(from: Phase, to: Phase, told: &[(u64, EventKind<In>)]) -> Self {
        let kinds = || told.iter().map(|(_, kind)| kind);
        Self {
            from,
            to,
            attempt: kinds().find_map(Attempt::of),
            lost: kinds().find_map(Loss::of),
            away: None,
        }
    }
}

impl Attempt {
    fn of<In>(kind: &EventKind<In>) -> Option<Self> {
        match kind {
            EventKind::Connected { .. } => Some(Self::Connected),
            EventKind::HigherTerm { .. } => Some(Self::HigherTerm),
            EventKind::AttemptFailed { error, .. } => Some(match error.class {
                OpenClass::Unreachable => Self::Unreachable,
                OpenClass::Refused => Self::Refused,
                OpenClass::TermTaken => Self::TermTaken,
                OpenClass::HigherTerm(_) => Self::HigherTerm,
            }),
            _ => None,
        }
    }
}

impl Loss {
    fn of<In>(kind: &EventKind<In>) -> Option<Self> {
        let EventKind::Disconnected { reason } = kind else {
            return None;
        };
        Some(match reason {
            DisconnectReason::Closed => Self::Closed,
            DisconnectReason::Failed(failure) => match failure.kind {
                FailureKind::Other => Self::Failed,
                FailureKind::TooLarge { .. } => Self::TooLarge,
                FailureKind::Undecodable { .. } => Self::Undecodable,
            },
            DisconnectReason::Replaced => Self::Replaced,
            DisconnectReason::Removed => Self::Removed,
            DisconnectReason::PoolClosed => Self::PoolClosed,
        })
    }
}

impl End {
    pub(crate) fn of<T>(result: &Result<T, RoundError>) -> Self {
        match result {
            Ok(_) => Self::Complete,
            Err(RoundError::Failed { .. }) => Self::Failed,
            Err(RoundError::TimedOut { .. }) => Self::TimedOut,
            Err(RoundError::Closed) => Self::Closed,
        }
    }
}
