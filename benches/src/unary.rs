//! The baseline that streams replace: two unary calls per worker and round, one to inject
//! and one to collect, each to all workers at once.

use futures_util::future::join_all;
use tonic::transport::Channel;

use crate::fleet::{Rounds, barrier, endpoint};
use crate::server::Server;
use crate::wire::worker_client::WorkerClient;

/// A client of each worker, each with a connection of its own.
#[derive(Debug)]
pub struct Unary {
    clients: Vec<WorkerClient<Channel>>,
}

// ===== impl Unary =====

impl Unary {
    /// Connects to each worker.
    ///
    /// # Panics
    ///
    /// Where a connection cannot be made.
    pub async fn connect(server: &Server) -> Self {
        let mut clients = Vec::new();
        for worker in 0..server.workers() {
            let channel = endpoint(server.address(worker)).connect().await;
            clients.push(WorkerClient::new(channel.expect("the server listens")));
        }
        Self { clients }
    }
}

impl Rounds for Unary {
    async fn round(&mut self, epoch: u64, size: usize) {
        for _ in ["inject", "collect"] {
            let calls = self
                .clients
                .iter_mut()
                .map(|client| client.apply(barrier(epoch, size)));
            for reply in join_all(calls).await {
                let reply = reply.expect("the server answers").into_inner();
                assert_eq!(reply.epoch, Some(epoch));
            }
        }
    }
}
