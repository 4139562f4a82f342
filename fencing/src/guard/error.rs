//! Why work may not go on.

use crate::guard::GuardState;

/// Nothing may start, or finish, under this guard.
///
/// An expected outcome: stop the work, then compete for the lease again.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("work under token {token} is refused: its guard is {}", describe(*state))]
pub struct Refused {
    token: u64,
    state: GuardState,
}

/// Guarded work was dropped, or was done too late to count.
///
/// By a loss, or by [`finish`](crate::Guard::finish): [`state`](Self::state) tells which.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("work under token {token} was stopped: its guard is {}", describe(*state))]
pub struct Stopped {
    token: u64,
    state: GuardState,
}

// ===== impl Refused =====

impl Refused {
    pub(super) fn new(token: u64, state: GuardState) -> Self {
        Self { token, state }
    }

    /// Returns the token of the guard that refused.
    #[must_use]
    pub fn token(&self) -> u64 {
        self.token
    }

    /// Returns the state the guard was in.
    #[must_use]
    pub fn state(&self) -> GuardState {
        self.state
    }
}

// ===== impl Stopped =====

impl Stopped {
    pub(super) fn new(token: u64, state: GuardState) -> Self {
        Self { token, state }
    }

    /// Returns the token of the guard that stopped the work.
    #[must_use]
    pub fn token(&self) -> u64 {
        self.token
    }

    /// Returns the state the guard was in.
    #[must_use]
    pub fn state(&self) -> GuardState {
        self.state
    }
}

fn describe(state: GuardState) -> &'static str {
    match state {
        GuardState::Live => "live",
        GuardState::Closing => "closing, by its cancel point or by finish",
        GuardState::Finished => "finished",
        GuardState::Lost => "lost",
    }
}
