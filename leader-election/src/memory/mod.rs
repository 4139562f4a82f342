//! The embedded backend: an election within one process.

#[cfg(feature = "test-util")]
mod faults;
mod queue;
mod store;

use std::sync::Arc;

use async_trait::async_trait;
use tokio::sync::watch;

pub use self::store::MemoryStore;
use crate::{Election, ElectionConfig, Error, Leader, Leadership, StoreElection};

/// An election within one process.
///
/// Clones share one store; several candidates may campaign through one handle
/// or through clones. Candidates lead in the order in which they joined. The
/// scope of its tokens is empty: the unscoped default.
///
/// The store forgets everything with the last handle. Its tokens go on from
/// `first_token`, so a process that keeps a durable high-water mark gives the
/// mark plus one.
///
/// Leases run on the store's own timer, from when it received a request, never
/// on the word of a holder: holder and store behave like two machines.
///
/// Under paused tokio time use `MemoryElection::simulated` of the feature
/// `test-util`: tokio's clock then moves without the machine's.
#[derive(Clone, Debug)]
pub struct MemoryElection {
    election: StoreElection<MemoryStore>,
}

// ===== impl MemoryElection =====

impl MemoryElection {
    /// Creates an election whose tokens are `first_token` and higher.
    ///
    /// A `config` that is not valid is reported by each campaign, as
    /// [`ErrorKind::Invalid`](crate::ErrorKind::Invalid).
    ///
    /// It is on the machine's clock. For tests, above all under paused tokio time, use
    /// `MemoryElection::simulated` of the feature `test-util`.
    #[must_use]
    pub fn new(config: ElectionConfig, first_token: u64) -> Self {
        Self {
            election: StoreElection::new(MemoryStore::new(first_token), config),
        }
    }

    /// Returns a handle of the same election with other settings.
    #[must_use]
    pub fn with_config(&self, config: ElectionConfig) -> Self {
        Self {
            election: self.election.with_config(config),
        }
    }

    /// Returns a handle of the same election with a name, see
    /// [`StoreElection::with_name`].
    #[must_use]
    pub fn with_name(&self, name: impl Into<Arc<str>>) -> Self {
        Self {
            election: self.election.with_name(name),
        }
    }

    /// Creates an election whose candidates are on tokio's clock.
    ///
    /// Deadlines are then times of [`simulated_time`](crate::simulated_time),
    /// which paused tokio time moves together with every timer.
    #[cfg(feature = "test-util")]
    #[cfg_attr(docsrs, doc(cfg(feature = "test-util")))]
    #[must_use]
    pub fn simulated(config: ElectionConfig, first_token: u64) -> Self {
        let real = Self::new(config, first_token);
        Self {
            election: real.election.with_clock(crate::simulated_time),
        }
    }
}

/// Faults, for tests of code that uses an election.
#[cfg(feature = "test-util")]
#[cfg_attr(docsrs, doc(cfg(feature = "test-util")))]
impl MemoryElection {
    /// Cuts the holder of `token` off, see [`MemoryStore::cut`].
    pub fn cut(&self, token: u64) {
        self.election.store().cut(token);
    }

    /// Ends a cut, see [`MemoryStore::heal`].
    pub fn heal(&self, token: u64) {
        self.election.store().heal(token);
    }

    /// Revokes the lease of `token`, see [`MemoryStore::expire`].
    pub fn expire(&self, token: u64) {
        self.election.store().expire(token);
    }

    /// Returns how many candidates are in the queue, the leader included, see
    /// [`MemoryStore::places`].
    #[must_use]
    pub fn places(&self) -> usize {
        self.election.store().places()
    }

    /// Deletes the key of `token`, see [`MemoryStore::delete`].
    pub fn delete(&self, token: u64) {
        self.election.store().delete(token);
    }
}

#[async_trait]
impl Election for MemoryElection {
    async fn campaign(&self, value: &[u8]) -> Result<Leadership, Error> {
        self.election.campaign(value).await
    }

    fn observe(&self) -> watch::Receiver<Option<Leader>> {
        self.election.observe()
    }
}
