//! The memory store keeps the contract.

use leader_election::{MemoryStore, conformance::Wire, conformance_tests};

use crate::Simulated;

async fn memory() -> Simulated<Wire<MemoryStore>> {
    Simulated::new(|wire, _| wire)
}

conformance_tests! {
    memory(), #[tokio::test(start_paused = true)]
}
