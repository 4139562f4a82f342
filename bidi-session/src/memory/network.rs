//! The network of a test: who serves where, and which faults there are.

use std::any::{Any, type_name};
use std::collections::BTreeMap;
use std::fmt;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::ops::RangeInclusive;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio_util::sync::CancellationToken;

use super::connector::Memory;
use super::counts::FaultCounts;
use super::line::{Dials, Line};
use super::server::Server;
use super::wire::Keepalive;
use crate::acceptor::{Acceptor, Session};
use crate::connector::Direction;

/// A network within the process, whose faults a test sets.
///
/// Addresses are any text; each has faults of its own, which also hold where nobody
/// serves yet. Clones share the network. When the last one and the last connector are
/// dropped, all workers are killed.
#[derive(Clone)]
pub struct Network {
    inner: Arc<Inner>,
}

struct Inner {
    seed: u64,
    state: Mutex<State>,
}

struct State {
    keepalive: Keepalive,
    places: BTreeMap<String, Place>,
}

/// One address.
#[derive(Default)]
struct Place {
    line: Arc<Line>,
    tenant: Option<Arc<Tenant>>,
}

/// Who serves at an address, whatever its messages are.
pub(super) struct Tenant {
    pub(super) server: Arc<dyn Any + Send + Sync>,
    /// Names of the types to the worker and to the pool.
    pub(super) messages: [&'static str; 2],
    killed: CancellationToken,
}

// ===== impl Network =====

impl Network {
    /// Makes a network without faults; what is random in it comes from the seed.
    #[must_use]
    pub fn new(seed: u64) -> Self {
        let keepalive = Keepalive {
            interval: Duration::from_secs(5),
            timeout: Duration::from_secs(5),
        };
        Self {
            inner: Arc::new(Inner {
                seed,
                state: Mutex::new(State {
                    keepalive,
                    places: BTreeMap::new(),
                }),
            }),
        }
    }

    /// Sets how a silent peer is found, 5 s + 5 s by default: pings in that interval,
    /// and the time for their answers.
    #[must_use]
    pub fn with_keepalive(self, interval: Duration, timeout: Duration) -> Self {
        self.lock().keepalive = Keepalive { interval, timeout };
        self
    }

    /// Serves at an address: runs the handler with each session that the acceptor admits.
    ///
    /// The handler is treated as over gRPC: 5 s after the end of its session it is
    /// dropped. Sessions run on the present runtime. What has served there before is
    /// killed.
    ///
    /// # Panics
    ///
    /// Outside of a tokio runtime.
    pub fn serve<Out, In, F, Fut>(&self, address: impl Into<String>, acceptor: Acceptor, handler: F)
    where
        Out: Send + 'static,
        In: Send + 'static,
        F: Fn(Session<Out, In>) -> Fut + Send + Sync + 'static,
        Fut: Future<Output = ()> + Send + 'static,
    {
        let server = Arc::new(Server::new(acceptor, handler));
        let killed = server.killed().clone();
        let mut state = self.lock();
        let place = state.places.entry(address.into()).or_default();
        let before = place.tenant.replace(Arc::new(Tenant {
            server,
            messages: [type_name::<Out>(), type_name::<In>()],
            killed,
        }));
        drop(state);
        if let Some(before) = before {
            before.killed.cancel();
        }
    }

    /// Ends what serves at an address as the death of its process does: handlers are
    /// dropped where they stand, connections break, and dials are refused.
    ///
    /// Says whether there was anything. Work that a handler has spawned goes on.
    pub fn kill(&self, address: &str) -> bool {
        let mut state = self.lock();
        let place = state.places.get_mut(address);
        let killed = place.and_then(|place| place.tenant.take());
        drop(state);
        killed.is_some_and(|tenant| {
            tenant.killed.cancel();
            true
        })
    }

    /// Returns a connector of pools to the workers of this network.
    #[must_use]
    pub fn connector<Out, In>(&self) -> Memory<Out, In>
    where
        Out: Send + 'static,
        In: Send + 'static,
    {
        Memory::new(self.clone())
    }

    /// Refuses dials from here on; sessions go on.
    pub fn refuse(&self, address: &str) {
        self.line(address).set(|dials, _, _| *dials = Dials::Refuse);
    }

    /// Lets dials hang from here on; sessions go on.
    pub fn hang(&self, address: &str) {
        self.line(address).set(|dials, _, _| *dials = Dials::Hang);
    }

    /// Lets all packets vanish, both ways, without a word to either end.
    ///
    /// What is on its way arrives when the cut is healed before keepalive ends the
    /// connection, and never otherwise. Dials hang.
    pub fn cut(&self, address: &str) {
        self.line(address).set(|_, to_worker, to_pool| {
            to_worker.is_cut = true;
            to_pool.is_cut = true;
        });
    }

    /// Lets the packets of one direction vanish, as [`cut`](Self::cut) does.
    pub fn cut_one_way(&self, address: &str, direction: Direction) {
        self.line(address).set(|_, to_worker, to_pool| {
            way(direction, to_worker, to_pool).is_cut = true;
        });
    }

    /// Stops the messages of one direction, while the connection stays alive: as with a
    /// reader that does not read.
    pub fn stall(&self, address: &str, direction: Direction) {
        self.line(address).set(|_, to_worker, to_pool| {
            way(direction, to_worker, to_pool).is_stalled = true;
        });
    }

    /// Delays what goes in one direction, each message by a random time of the range, in
    /// order; `delay..=delay` is a fixed one.
    ///
    /// A message is on its way from when its reader waits for it; at most 64 are.
    /// Keepalive does not hold a delay against a peer.
    pub fn delay(&self, address: &str, direction: Direction, delay: RangeInclusive<Duration>) {
        self.line(address).set(|_, to_worker, to_pool| {
            way(direction, to_worker, to_pool).delay = delay;
        });
    }

    /// Breaks the connections there are, for both ends at once; cut ones as well.
    pub fn reset(&self, address: &str) {
        self.line(address).reset();
    }

    /// Breaks the connection that carries the message after so many more ones in one
    /// direction; that message is lost.
    pub fn reset_after(&self, address: &str, direction: Direction, messages: u64) {
        self.line(address).set(|_, to_worker, to_pool| {
            way(direction, to_worker, to_pool).passes = Some(messages);
        });
    }

    /// Takes all faults off an address. Who was killed there stays so.
    pub fn heal(&self, address: &str) {
        self.line(address).set(|dials, to_worker, to_pool| {
            *dials = Dials::default();
            *to_worker = Default::default();
            *to_pool = Default::default();
        });
    }

    /// Returns what the faults of an address have done so far.
    #[must_use]
    pub fn counts(&self, address: &str) -> FaultCounts {
        self.line(address).counts()
    }

    /// Returns what the faults of all addresses have done so far.
    #[must_use]
    pub fn total(&self) -> FaultCounts {
        let mut total = FaultCounts::default();
        for place in self.lock().places.values() {
            total += place.line.counts();
        }
        total
    }

    pub(super) fn line(&self, address: &str) -> Arc<Line> {
        let mut state = self.lock();
        if let Some(place) = state.places.get(address) {
            return place.line.clone();
        }
        let place = state.places.entry(address.to_owned()).or_default();
        place.line.clone()
    }

    /// Returns who serves at an address, or `None` where nobody does.
    pub(super) fn tenant(&self, address: &str) -> Option<Arc<Tenant>> {
        self.lock().places.get(address)?.tenant.clone()
    }

    pub(super) fn keepalive(&self) -> Keepalive {
        self.lock().keepalive
    }

    /// Returns the seed of one dial.
    pub(super) fn seed_of(&self, address: &str, dial: u64) -> u64 {
        // Fixed keys: the same seed gives the same run.
        let mut hasher = DefaultHasher::new();
        (self.inner.seed, address, dial).hash(&mut hasher);
        hasher.finish()
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        let state = &self.inner.state;
        state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl fmt::Debug for Network {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Network")
            .field("seed", &self.inner.seed)
            .finish_non_exhaustive()
    }
}

// ===== impl Inner =====

impl Drop for Inner {
    fn drop(&mut self) {
        let state = self.state.get_mut();
        let state = state.unwrap_or_else(PoisonError::into_inner);
        let tenants = state
            .places
            .values()
            .filter_map(|place| place.tenant.as_ref());
        tenants.for_each(|tenant| tenant.killed.cancel());
    }
}

fn way<T>(direction: Direction, to_worker: T, to_pool: T) -> T {
    match direction {
        Direction::ToWorker => to_worker,
        Direction::FromWorker => to_pool,
    }
}
