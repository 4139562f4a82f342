//! How a leadership ended. Losing it is an expected outcome, no error.

use std::fmt;

/// Why a leadership is over.
///
/// `Display` gives a short text for logs.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Loss {
    /// No renewal was confirmed before the deadline.
    Expired,
    /// Renewals were withheld by `renew_while` until the deadline; none that was sent
    /// failed.
    Stalled,
    /// The store no longer holds this candidate's place: deleted, revoked or
    /// expired there.
    Removed,
    /// The store went backwards: it was restored from older data or rebuilt.
    Reset,
    /// This side resigned, or dropped the leadership.
    Resigned,
    /// A callback given to [`follow`](crate::Leadership::follow) panicked.
    FollowerPanicked,
    /// The runtime that renewed the lease was shut down.
    Stopped,
}

/// What became of the place in the store when a leadership was resigned.
///
/// No case is an error: in each the leadership is over on this side.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Resigned {
    /// The store confirmed the release: the next candidate leads at once.
    Released,
    /// The store did not confirm in time. The release is tried again in the
    /// background; where the store is there, the next candidate leads after one
    /// TTL at the latest.
    Unconfirmed,
    /// There was nothing to release: the leadership had been lost, or its
    /// lease ran out.
    AlreadyOver,
}

// ===== impl Loss =====

impl fmt::Display for Loss {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Expired => "no renewal was confirmed before the deadline",
            Self::Stalled => "renewals were withheld for lack of progress",
            Self::Removed => "the store no longer holds this candidate's place",
            Self::Reset => "the store went backwards",
            Self::Resigned => "resigned",
            Self::FollowerPanicked => "a callback that follows the deadline panicked",
            Self::Stopped => "the runtime that renewed the lease was shut down",
        })
    }
}

// ===== impl Resigned =====

impl fmt::Display for Resigned {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Released => "released",
            Self::Unconfirmed => "release not confirmed yet",
            Self::AlreadyOver => "already over",
        })
    }
}
