//! What the suite asks of a backend's test.

use std::{sync::Arc, time::Duration};

use async_trait::async_trait;

use crate::{Election, ElectionConfig, clock::Clock};

/// One election of a backend, with faults.
///
/// Each claim is checked on a harness of its own, over a store or a name that nobody has
/// used before. Candidates are spread over nodes, each with a way to the store of its own,
/// as processes on different machines are; [`Wire`](super::Wire) makes such a way for
/// those who have a [`Store`](crate::Store).
///
/// # Cancel safety
///
/// Not needed: the suite drops no call of a harness before it ends.
#[async_trait]
pub trait Harness: Send + Sync + 'static {
    /// Returns the shortest TTL that the suite may use; it also uses 3 and 30 times as much.
    ///
    /// Of the granularity that the backend has, and in real time not below what the
    /// machine's pauses allow for: a renewal has a sixth of it.
    fn ttl(&self) -> Duration;

    /// Tells whether tokio's time is paused, so that waiting costs nothing: rounds are
    /// then more. Default false.
    fn is_simulated(&self) -> bool {
        false
    }

    /// Returns the time on the clock of the deadlines; by default the machine's time since
    /// boot.
    fn now(&self) -> Duration {
        Clock::boot().now()
    }

    /// Opens a handle of the election on `node`, as a process that starts there does.
    async fn election(&self, node: usize, config: ElectionConfig) -> Arc<dyn Election>;

    /// Cuts the way between a node and the store, for all its handles.
    async fn cut(&self, node: usize, cut: Cut);

    /// Ends the cut of a node; connections that broke are made anew by the backend.
    async fn heal(&self, node: usize);

    /// Ends the lease of the place of `token` at once, as an operator who revokes it does.
    async fn expire(&self, token: u64);

    /// Removes the place of `token`, as an operator who deletes it does; its lease may go
    /// on. By default the same as [`expire`](Self::expire).
    async fn delete(&self, token: u64) {
        self.expire(token).await;
    }

    /// Reads the tokens of all places from the store, the leader's first.
    async fn queue(&self) -> Vec<u64>;
}

/// What a cut does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Cut {
    /// Nothing reaches the store, and no word of it comes back.
    Requests,
    /// Requests take effect; their answers are lost.
    Answers,
    /// Requests take effect; their answers arrive when the cut is healed.
    LateAnswers,
}
