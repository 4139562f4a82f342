//! What a run is doing right now: a value in a `watch`, for whoever displays it.

use std::fmt;
use std::time::Duration;

use crate::wire::Epoch;

/// The step that the leader is in.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum Phase {
    /// Nobody leads.
    #[default]
    Electing,
    /// Everything goes back to the last committed epoch.
    Recovering,
    /// Workers read and count.
    Counting,
    /// A barrier is under way.
    Collecting,
    /// An epoch is being made durable.
    Committing,
    /// The chain has ended; the totals are merged and compared.
    Comparing,
}

impl fmt::Display for Phase {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Electing => "electing",
            Self::Recovering => "recovering",
            Self::Counting => "counting",
            Self::Collecting => "collecting",
            Self::Committing => "committing",
            Self::Comparing => "merging and comparing",
        })
    }
}

/// A run at one instant.
#[derive(Clone, Debug, Default)]
#[non_exhaustive]
pub struct Status {
    /// The step that the leader is in.
    pub phase: Phase,
    /// Who leads, or led last.
    pub leader: String,
    /// Its token.
    pub token: u64,
    /// The last committed epoch.
    pub epoch: Epoch,
    /// Epochs committed by this process.
    pub epochs: u64,
    /// From injection to the durable commit, of the last epoch.
    pub latency: Duration,
    /// Input bytes of committed epochs, earlier processes' included.
    pub committed_bytes: u64,
    /// The same, with what the workers read since.
    pub read_bytes: u64,
    /// Rows committed by this process.
    pub rows: u64,
    /// What keeps the loop from the next commit; empty where nothing does.
    pub trouble: String,
    /// What keeps a user's request from being served; empty where nothing does.
    pub waits: String,
    /// Which round is under way, and who has not answered it; empty where none takes long.
    pub round: String,
    /// Size of the input, bytes.
    pub total_bytes: u64,
    /// Workers that have a session.
    pub workers_up: usize,
    /// Workers that exist.
    pub workers: usize,
    /// Each of them, as its leader sees it.
    pub states: Vec<WorkerStatus>,
}

/// One worker, as its leader sees it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct WorkerStatus {
    /// Its id.
    pub worker: String,
    /// There is a session.
    pub is_up: bool,
    /// Shards that it holds.
    pub shards: usize,
    /// Since when it is in this state, its last error, and when it is tried again.
    pub state: String,
}
