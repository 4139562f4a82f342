//! Checks whether a backend keeps the contract of [`Election`](crate::Election).
//!
//! A backend's test implements [`Harness`], which opens handles of one election and causes
//! faults, and lets [`conformance_tests!`](crate::conformance_tests) make a test of each
//! claim:
//!
//! ```
//! use std::{collections::HashMap, sync::{Arc, Mutex}, time::Duration};
//!
//! use leader_election::{
//!     Election, ElectionConfig, MemoryStore, StoreElection,
//!     conformance::{Cut, Harness, Wire},
//! };
//!
//! struct Memory {
//!     store: MemoryStore,
//!     nodes: Mutex<HashMap<usize, Wire<MemoryStore>>>,
//! }
//!
//! impl Memory {
//!     async fn start() -> Self {
//!         Self { store: MemoryStore::new(1), nodes: Mutex::default() }
//!     }
//!
//!     fn node(&self, node: usize) -> Wire<MemoryStore> {
//!         let mut nodes = self.nodes.lock().unwrap();
//!         nodes.entry(node).or_insert_with(|| Wire::new(self.store.clone())).clone()
//!     }
//! }
//!
//! #[async_trait::async_trait]
//! impl Harness for Memory {
//!     fn ttl(&self) -> Duration {
//!         Duration::from_secs(2)
//!     }
//!
//!     async fn election(&self, node: usize, config: ElectionConfig) -> Arc<dyn Election> {
//!         Arc::new(StoreElection::new(self.node(node), config))
//!     }
//!
//!     async fn cut(&self, node: usize, cut: Cut) {
//!         self.node(node).cut(cut);
//!     }
//!
//!     async fn heal(&self, node: usize) {
//!         self.node(node).heal();
//!     }
//!
//!     async fn expire(&self, token: u64) {
//!         self.store.expire(token);
//!     }
//!
//!     async fn queue(&self) -> Vec<u64> {
//!         self.store.tokens()
//!     }
//! }
//!
//! leader_election::conformance_tests! {
//!     Memory::start(), #[tokio::test]
//! }
//! ```
//!
//! [`check`] is the same without the macro. The claims are what users of an election rely
//! on; what a claim promises is in [`Claim::promise`], and in the text of its failure.
//! Where the suite says that something happens soon, it waits for ten times the harness's
//! TTL, so that a busy machine fails no test; it is no measure of speed.

mod claim;
mod claims;
mod harness;
mod stage;
mod wire;

pub use self::{
    claim::{Claim, Violation, check},
    harness::{Cut, Harness},
    wire::Wire,
};
