//! The pool: one task per worker, and the handles that steer them.

mod aftermath;
mod board;
mod driver;
mod events;
mod inbox;
mod inject;
mod log;
mod mailbox;
mod reader;
mod ready;
mod roll;
mod send;
mod shared;
mod slot;
mod tally;

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use tokio::runtime::Handle;

pub use self::board::Round;
pub use self::events::Events;

use self::shared::Shared;
use self::slot::Place;
use crate::config::PoolConfig;
use crate::connector::Connector;
use crate::event::Counters;
use crate::state::WorkerState;
use crate::worker::WorkerId;

/// How long [`Pool::close`] waits for its tasks, at most.
const CLOSE_TIMEOUT: Duration = Duration::from_secs(5);

/// Sessions with workers, kept up until they are removed.
///
/// A pool is born with a term and dies with it: a new leadership makes a new pool.
/// Clones share the pool; dropping the last one closes it in the background, and so does
/// the shutdown of its runtime. The README has a table of what happens on which end.
pub struct Pool<C: Connector> {
    handle: Arc<PoolHandle<C>>,
}

/// Closes the pool when the last clone goes.
struct PoolHandle<C: Connector> {
    shared: Arc<Shared<C>>,
}

// ===== impl Pool =====

impl<C: Connector> Pool<C> {
    /// Makes an empty pool, whose tasks run on the present runtime.
    ///
    /// # Panics
    ///
    /// Outside of a tokio runtime, where the system has no source of randomness, and
    /// with settings that [`PoolConfig::validate`] refuses.
    #[track_caller]
    pub fn new(connector: C, config: PoolConfig) -> (Self, Events<C>) {
        if let Err(error) = config.validate() {
            panic!("invalid settings of a pool: {error}");
        }
        let Ok(runtime) = Handle::try_current() else {
            panic!("a pool needs a tokio runtime: make it within one");
        };
        let shared = Arc::new(Shared::new(connector, config, runtime));
        let events = Events::new(shared.inbox.clone());
        let handle = Arc::new(PoolHandle { shared });
        (Self { handle }, events)
    }

    /// Adds a worker, or moves it to another target.
    ///
    /// Returns at once, without I/O; the worker is connected in the background and
    /// retried until it is removed. An equal target leaves the session as it is, and is
    /// used from the next attempt on, say with a newer certificate; a different one ends
    /// the session. On a closed pool nothing happens.
    pub fn insert(&self, worker: impl Into<WorkerId>, target: C::Target) {
        let incarnation = None;
        let place = Place {
            target,
            incarnation,
        };
        self.shared().insert(worker.into(), place);
    }

    /// Adds a worker of which one incarnation is expected, as [`insert`](Self::insert).
    ///
    /// Another incarnation refuses the session; that is retried like any refusal. An
    /// equal target with another expectation counts as a different one.
    pub fn insert_incarnation(
        &self,
        worker: impl Into<WorkerId>,
        target: C::Target,
        incarnation: u64,
    ) {
        let incarnation = Some(incarnation);
        let place = Place {
            target,
            incarnation,
        };
        self.shared().insert(worker.into(), place);
    }

    /// Removes a worker and ends its session; says whether it was in the pool.
    ///
    /// Rounds that wait for it fail at once. Its last event is
    /// [`Removed`](crate::EventKind::Removed).
    pub fn remove(&self, worker: impl AsRef<str>) -> bool {
        self.shared().remove(worker.as_ref())
    }

    /// Returns what is known of a worker, or `None` where it is not in the pool.
    #[must_use]
    pub fn state(&self, worker: impl AsRef<str>) -> Option<WorkerState> {
        let slot = self.shared().slot(worker.as_ref())?;
        Some(slot.state(self.shared().clock.now()))
    }

    /// Returns what the pool has dropped so far.
    #[must_use]
    pub fn counters(&self) -> Counters {
        self.shared().tally.read()
    }

    /// Ends all sessions and rounds, and waits until the tasks have ended, at most 5 s.
    ///
    /// Each worker's last events can still be taken; then [`Events::recv`] ends. May
    /// be repeated.
    ///
    /// # Cancel safety
    ///
    /// Cancel safe: the pool is closed by the first poll, and goes on to end in the
    /// background when the future is dropped.
    pub async fn close(&self) {
        self.shared().close();
        let tasks = self.shared().tasks.wait();
        if tokio::time::timeout(CLOSE_TIMEOUT, tasks).await.is_err() {
            tracing::warn!("tasks of a closed pool are still blocked");
        }
    }

    fn shared(&self) -> &Arc<Shared<C>> {
        &self.handle.shared
    }
}

impl<C: Connector> Clone for Pool<C> {
    fn clone(&self) -> Self {
        Self {
            handle: self.handle.clone(),
        }
    }
}

impl<C: Connector> fmt::Debug for Pool<C> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Pool").finish_non_exhaustive()
    }
}

impl<C: Connector> Drop for PoolHandle<C> {
    fn drop(&mut self) {
        self.shared.close();
    }
}
