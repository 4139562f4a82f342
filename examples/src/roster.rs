//! Who counts, and where: what a leader brings its pool to.

use std::collections::BTreeMap;

use bidi_session::WorkerId;
use tonic::transport::Endpoint;

/// The workers that exist, as far as is known.
pub type Roster = BTreeMap<WorkerId, Place>;

/// Where a worker listens, and what it takes.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Place {
    /// Where it listens.
    pub endpoint: Endpoint,
    /// Which life of it is expected there; `None` takes any.
    pub incarnation: Option<u64>,
    /// Shards that it holds at the most.
    pub slots: usize,
}

// ===== impl Place =====

impl Place {
    /// A worker of any incarnation that takes any number of shards.
    #[must_use]
    pub fn new(endpoint: Endpoint) -> Self {
        Self {
            endpoint,
            incarnation: None,
            slots: usize::MAX,
        }
    }

    /// Sets which incarnation is expected.
    #[must_use]
    pub fn with_incarnation(mut self, incarnation: u64) -> Self {
        self.incarnation = Some(incarnation);
        self
    }

    /// Sets how many shards it holds at the most.
    #[must_use]
    pub fn with_slots(mut self, slots: usize) -> Self {
        self.slots = slots;
        self
    }
}
