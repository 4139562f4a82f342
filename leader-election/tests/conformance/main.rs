//! Hunts backends that break the contract unnoticed: the memory store passes the suite,
//! and each claim fails on a store that breaks it.

mod broken;
mod memory;

use std::{
    collections::HashMap,
    sync::{Arc, Mutex},
    time::Duration,
};

use async_trait::async_trait;
use leader_election::{
    Election, ElectionConfig, MemoryStore, Store, StoreElection,
    conformance::{Cut, Harness, Wire},
    simulated_time,
};

type Open<S> = Box<dyn Fn(Wire<MemoryStore>, MemoryStore) -> S + Send + Sync>;

/// Nodes on paused time that share a memory store.
pub(crate) struct Simulated<S> {
    store: MemoryStore,
    wires: Mutex<HashMap<usize, Wire<MemoryStore>>>,
    /// What the candidates of a node call at their end of the wire.
    open: Open<S>,
    clock: fn() -> Duration,
    tokens: fn(u64) -> u64,
}

impl<S> Simulated<S> {
    pub(crate) fn new(
        open: impl Fn(Wire<MemoryStore>, MemoryStore) -> S + Send + Sync + 'static,
    ) -> Self {
        Self {
            store: MemoryStore::new(1),
            wires: Mutex::default(),
            open: Box::new(open),
            clock: simulated_time,
            tokens: |token| token,
        }
    }

    /// Gives the candidates another clock than the suite has.
    pub(crate) fn with_clock(mut self, clock: fn() -> Duration) -> Self {
        self.clock = clock;
        self
    }

    /// Tells other tokens than the memory store has; twice is none.
    pub(crate) fn with_tokens(mut self, tokens: fn(u64) -> u64) -> Self {
        self.tokens = tokens;
        self
    }

    fn wire(&self, node: usize) -> Wire<MemoryStore> {
        let mut wires = self.wires.lock().expect("no panic under it");
        let wire = wires.entry(node);
        wire.or_insert_with(|| Wire::new(self.store.clone()))
            .clone()
    }
}

#[async_trait]
impl<S: Store> Harness for Simulated<S> {
    fn ttl(&self) -> Duration {
        Duration::from_secs(2)
    }

    fn is_simulated(&self) -> bool {
        true
    }

    fn now(&self) -> Duration {
        simulated_time()
    }

    async fn election(&self, node: usize, config: ElectionConfig) -> Arc<dyn Election> {
        let store = (self.open)(self.wire(node), self.store.clone());
        Arc::new(StoreElection::new(store, config).with_clock(self.clock))
    }

    async fn cut(&self, node: usize, cut: Cut) {
        self.wire(node).cut(cut);
    }

    async fn heal(&self, node: usize) {
        self.wire(node).heal();
    }

    async fn expire(&self, token: u64) {
        self.store.expire((self.tokens)(token));
    }

    async fn queue(&self) -> Vec<u64> {
        let tokens = self.store.tokens().into_iter();
        tokens.map(self.tokens).collect()
    }
}
