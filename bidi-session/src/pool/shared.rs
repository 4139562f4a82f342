//! What the pool's handles and its tasks share.

use std::collections::HashMap;
use std::collections::hash_map::DefaultHasher;
use std::fmt;
use std::hash::{Hash, Hasher};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, RwLock, RwLockReadGuard, RwLockWriteGuard};

use tokio::runtime::Handle;
use tokio::sync::Notify;
use tokio_util::task::TaskTracker;

use crate::clock::Clock;
use crate::config::PoolConfig;
use crate::connector::{Attempt, Connector};
use crate::core::peer::{Input, Pace, Peer};
use crate::event::DisconnectReason;
use crate::outbox::OutboxSender;
use crate::pool::aftermath::Aftermath;
use crate::pool::board::Board;
use crate::pool::driver::{self, Tenure};
use crate::pool::inbox::Inbox;
use crate::pool::roll::Roll;
use crate::pool::slot::{Place, Slot};
use crate::pool::tally::Tally;
use crate::worker::WorkerId;

/// What the pool's handles and its tasks share.
pub(crate) struct Shared<C: Connector> {
    pub(crate) connector: C,
    pub(crate) config: PoolConfig,
    pub(crate) clock: Clock,
    pub(crate) inbox: Arc<Inbox<C::In>>,
    pub(crate) board: Arc<Board<C::In>>,
    pub(crate) tally: Arc<Tally>,
    pub(crate) tasks: TaskTracker,
    /// Wakes those who wait for workers when one has left the pool.
    pub(crate) left: Notify,
    runtime: Handle,
    id: u128,
    seed: u64,
    last_generation: AtomicU64,
    entries: RwLock<Entries<C>>,
    last_roll: Mutex<Option<Arc<Roll<C>>>>,
}

/// The generation of a session, and its outbox.
type Session<Out> = (u64, OutboxSender<Out>);

struct Entries<C: Connector> {
    slots: HashMap<WorkerId, Arc<Slot<C>>>,
    is_closed: bool,
}

// ===== impl Shared =====

impl<C: Connector> Shared<C> {
    pub(crate) fn new(connector: C, config: PoolConfig, runtime: Handle) -> Self {
        let clock = Clock::start();
        let tally = Arc::new(Tally::default());
        Self {
            inbox: Arc::new(Inbox::new(config.inbox_len, tally.clone())),
            board: Arc::new(Board::new(clock, tally.clone())),
            seed: config.seed.unwrap_or_else(|| random() as u64),
            connector,
            config,
            clock,
            tally,
            tasks: TaskTracker::new(),
            left: Notify::new(),
            runtime,
            id: random(),
            last_generation: AtomicU64::new(0),
            entries: RwLock::new(Entries {
                slots: HashMap::new(),
                is_closed: false,
            }),
            last_roll: Mutex::new(None),
        }
    }

    pub(crate) fn slot(&self, worker: &str) -> Option<Arc<Slot<C>>> {
        self.read().slots.get(worker).cloned()
    }

    /// Returns the generation and outbox of a worker's session, `Some(None)` where it has
    /// none now.
    pub(crate) fn session(&self, worker: &str) -> Option<Option<Session<C::Out>>> {
        // Under the lock, which costs less than another handle on the entry.
        Some(self.read().slots.get(worker)?.session())
    }

    pub(crate) fn is_closed(&self) -> bool {
        self.read().is_closed
    }

    /// Returns the attempt of a new generation, which expects any incarnation.
    pub(crate) fn attempt(&self, worker: &WorkerId) -> Attempt {
        Attempt {
            worker: worker.clone(),
            scope: self.config.scope.clone(),
            term: self.config.term,
            pool: self.id,
            generation: self.last_generation.fetch_add(1, Ordering::Relaxed) + 1,
            incarnation: None,
        }
    }

    pub(crate) fn insert(self: &Arc<Self>, worker: WorkerId, place: Place<C::Target>) {
        // Repeated only where the entry was removed in between.
        while !self.try_insert(&worker, &place) {}
    }

    fn try_insert(self: &Arc<Self>, worker: &WorkerId, place: &Place<C::Target>) -> bool {
        if let Some(slot) = self.slot(worker.as_str()) {
            let known = slot.place();
            if known.incarnation == place.incarnation
                && self.connector.is_same(&known.target, &place.target)
            {
                return slot.refresh(&known, Arc::new(place.clone()));
            }
            let place = Arc::new(place.clone());
            let replaced = slot.replace(&self.inbox, self.clock.now(), &known, place);
            return replaced
                .map(|aftermath| self.settle(&slot, aftermath))
                .is_some();
        }
        let mut entries = self.write();
        if entries.is_closed {
            return true;
        }
        if entries.slots.contains_key(worker) {
            return false;
        }
        let peer = Peer::new(self.pace(), self.seed_of(worker), self.clock.now());
        let mailbox = self.inbox.open(worker);
        let slot = Arc::new(Slot::new(
            worker.clone(),
            place.clone(),
            peer,
            mailbox,
            self.tally.clone(),
            self.config.backoff_policy.clone(),
        ));
        entries.slots.insert(worker.clone(), slot.clone());
        // Not under the lock: a runtime that has shut down drops the task at once, which
        // closes the pool.
        drop(entries);
        let pool = self.clone();
        let task = driver::drive(Tenure { pool, slot });
        self.tasks.spawn_on(task, &self.runtime);
        true
    }

    pub(crate) fn remove(&self, worker: &str) -> bool {
        let mut entries = self.write();
        let Some(slot) = entries.slots.remove(worker) else {
            return false;
        };
        // Told under the lock that an insert takes: the end of this entry comes
        // before the beginning of the next.
        let input = Input::Removed(DisconnectReason::Removed);
        let aftermath = slot.step(&self.inbox, self.clock.now(), input);
        drop(entries);
        self.settle(&slot, aftermath);
        self.left.notify_waiters();
        true
    }

    pub(crate) fn close(&self) {
        let mut entries = self.write();
        entries.is_closed = true;
        let slots = std::mem::take(&mut entries.slots).into_values();
        let mut slots: Vec<_> = slots.collect();
        // The order of a hash map would leak into the events of a seeded run.
        slots.sort_unstable_by(|one, other| one.id().cmp(other.id()));
        let now = self.clock.now();
        let waiting = self.board.close();
        let ended: Vec<_> = slots
            .into_iter()
            .map(|slot| {
                let input = Input::Removed(DisconnectReason::PoolClosed);
                let aftermath = slot.step(&self.inbox, now, input);
                (slot, aftermath)
            })
            .collect();
        let reader = self.inbox.close();
        self.tasks.close();
        drop(entries);
        // Wakers are foreign code.
        waiting.iter().for_each(|round| round.notify_one());
        for (slot, aftermath) in ended {
            self.settle(&slot, aftermath);
        }
        if let Some(reader) = reader {
            reader.wake();
        }
        self.left.notify_waiters();
    }

    /// Does what a step has left to do; no lock may be held.
    pub(crate) fn settle(&self, slot: &Slot<C>, aftermath: Aftermath<C::Out>) {
        self.count_stale_inputs(aftermath.stale_inputs);
        aftermath.settle(slot, &self.board, self.clock.now());
    }

    pub(crate) fn count_stale_inputs(&self, count: u64) {
        if count > 0 {
            self.tally.add(|counters| counters.stale_inputs += count);
        }
    }

    fn pace(&self) -> Pace {
        Pace {
            backoff_base: self.config.backoff_base,
            backoff_cap: self.config.backoff_cap,
            blocked_retry: self.config.blocked_retry,
            stable_after: self.config.stable_after,
        }
    }

    fn seed_of(&self, worker: &WorkerId) -> u64 {
        // Fixed keys: the same seed and worker give the same delays.
        let mut hasher = DefaultHasher::new();
        (self.seed, worker).hash(&mut hasher);
        hasher.finish()
    }

    /// Returns whom the last round asked.
    pub(crate) fn last_roll(&self) -> MutexGuard<'_, Option<Arc<Roll<C>>>> {
        let last = self.last_roll.lock();
        last.unwrap_or_else(PoisonError::into_inner)
    }

    fn read(&self) -> RwLockReadGuard<'_, Entries<C>> {
        self.entries.read().unwrap_or_else(PoisonError::into_inner)
    }

    fn write(&self) -> RwLockWriteGuard<'_, Entries<C>> {
        self.entries.write().unwrap_or_else(PoisonError::into_inner)
    }
}

impl<C: Connector> fmt::Debug for Shared<C> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Shared").finish_non_exhaustive()
    }
}

fn random() -> u128 {
    let mut bytes = [0; 16];
    getrandom::fill(&mut bytes).expect("the system has a source of randomness");
    u128::from_le_bytes(bytes)
}
