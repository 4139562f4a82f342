//! The driver: makes an election out of any store.

mod candidate;
mod observer;
mod outage;
mod troubles;

use std::{sync::Arc, time::Duration};

use async_trait::async_trait;
use tokio::{
    runtime::Handle,
    sync::{oneshot, watch},
};

use self::{candidate::Candidate, observer::Observer};
use crate::{
    Election, ElectionConfig, Error, ErrorKind, Leader, Leadership, Store, clock::Clock,
    leadership::check_value,
};

/// An election over a [`Store`].
///
/// The handle is cheap to clone; clones share the store.
#[derive(Debug)]
pub struct StoreElection<S> {
    store: Arc<S>,
    config: Arc<ElectionConfig>,
    clock: Clock,
    name: Arc<str>,
    observer: Arc<Observer>,
}

/// What a candidate, or the observer, has of its election.
struct Parts {
    store: Arc<dyn Store>,
    config: Arc<ElectionConfig>,
    clock: Clock,
    name: Arc<str>,
}

// ===== impl StoreElection =====

impl<S: Store> StoreElection<S> {
    /// Creates an election; nothing is sent yet.
    ///
    /// A `config` that is not valid is reported by each campaign.
    pub fn new(store: S, config: ElectionConfig) -> Self {
        Self {
            store: Arc::new(store),
            config: Arc::new(config),
            clock: Clock::boot(),
            name: "".into(),
            observer: Arc::default(),
        }
    }

    /// Returns a handle of the same election with a name for logs and measures.
    ///
    /// It tells elections of one process apart: the field and the label `election`. By
    /// default empty.
    #[must_use]
    pub fn with_name(&self, name: impl Into<Arc<str>>) -> Self {
        Self {
            name: name.into(),
            ..self.clone()
        }
    }

    /// Returns a handle of the same election with other settings.
    #[must_use]
    pub fn with_config(&self, config: ElectionConfig) -> Self {
        Self {
            config: Arc::new(config),
            ..self.clone()
        }
    }

    /// Returns a handle of the same election on another clock.
    ///
    /// `clock` gives the time since boot of the candidates that campaign
    /// through this handle. Under paused tokio time, give
    /// [`simulated_time`](crate::simulated_time).
    #[cfg(feature = "test-util")]
    #[cfg_attr(docsrs, doc(cfg(feature = "test-util")))]
    #[must_use]
    pub fn with_clock(&self, clock: impl Fn() -> Duration + Send + Sync + 'static) -> Self {
        Self {
            clock: Clock::custom(clock),
            ..self.clone()
        }
    }

    fn parts(&self) -> Parts {
        Parts {
            store: Arc::clone(&self.store) as Arc<dyn Store>,
            config: Arc::clone(&self.config),
            clock: self.clock.clone(),
            name: Arc::clone(&self.name),
        }
    }

    /// Returns the store.
    #[must_use]
    pub fn store(&self) -> &S {
        &self.store
    }

    /// Returns the settings.
    #[must_use]
    pub fn config(&self) -> &ElectionConfig {
        &self.config
    }
}

impl<S> Clone for StoreElection<S> {
    fn clone(&self) -> Self {
        Self {
            store: Arc::clone(&self.store),
            config: Arc::clone(&self.config),
            clock: self.clock.clone(),
            name: Arc::clone(&self.name),
            observer: Arc::clone(&self.observer),
        }
    }
}

#[async_trait]
impl<S: Store> Election for StoreElection<S> {
    async fn campaign(&self, value: &[u8]) -> Result<Leadership, Error> {
        self.config.validate()?;
        check_value(value)?;
        let runtime = Handle::try_current().map_err(|error| {
            Error::new(ErrorKind::Invalid, "a campaign needs a tokio runtime").with_source(error)
        })?;
        // Panics here where the runtime has no timers, and not in a task.
        drop(tokio::time::sleep(Duration::ZERO));
        let (caller, won) = oneshot::channel();
        let candidate = Candidate::new(self.parts(), value.into(), caller);
        // Owned through the channel, then through the leadership: dropping
        // either makes the task leave the store and end.
        runtime.spawn(candidate.run());
        won.await.unwrap_or_else(|_| {
            Err(Error::new(
                ErrorKind::Unavailable,
                "the runtime of the campaign was shut down",
            ))
        })
    }

    fn observe(&self) -> watch::Receiver<Option<Leader>> {
        self.observer.subscribe(self.parts())
    }
}
