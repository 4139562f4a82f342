//! The pool, used as its documentation says.

use std::time::Duration;

use bidi_session::tonic::Tonic;
use bidi_session::{EventKind, Events, Pool, PoolConfig};

use crate::fleet::{Courier, Fleet, OUTBOX_LEN, Rounds, barrier, endpoint};
use crate::server::Server;
use crate::wire::worker_client::WorkerClient;
use crate::wire::{Command, Reply};

/// Far above what anything here takes.
const LONG: Duration = Duration::from_secs(120);

/// The connector of the measured pool.
pub type Connect = Tonic<Command, Reply>;

/// A pool with a session to each worker of a server.
#[derive(Debug)]
pub struct Pooled {
    pool: Pool<Connect>,
    events: Events<Connect>,
    workers: Vec<String>,
}

/// A pool's handle and the worker that it sends to.
#[derive(Debug)]
pub struct PooledCourier {
    pool: Pool<Connect>,
    worker: String,
}

/// Returns the connector of the measured pool.
#[must_use]
pub fn connect() -> Connect {
    Tonic::new(|channel, request| async move { WorkerClient::new(channel).control(request).await })
        .with_answers(|reply: &Reply| reply.epoch)
}

// ===== impl Pooled =====

impl Pooled {
    /// Makes a pool and waits until it has a session with each worker.
    ///
    /// # Panics
    ///
    /// Where that takes more than two minutes.
    pub async fn connect(server: &Server) -> Self {
        // A bench of reconnecting cuts sessions faster than any network: each counts as healthy.
        let config = PoolConfig::new(1).with_stable_after(Duration::ZERO);
        assert_eq!(config.outbox_len, OUTBOX_LEN, "the queues are not equal");
        let (pool, mut events) = Pool::new(connect(), config);
        let workers: Vec<String> = (0..server.workers()).map(Server::name).collect();
        for (number, worker) in workers.iter().enumerate() {
            pool.insert(worker.as_str(), endpoint(server.address(number)));
        }
        let ready = pool.ready(&workers, LONG).await;
        ready.expect("the server listens");
        while events.try_recv().is_some() {}
        Self {
            pool,
            events,
            workers,
        }
    }

    /// Returns the pool.
    #[must_use]
    pub fn pool(&self) -> &Pool<Connect> {
        &self.pool
    }

    /// Returns the pool's events.
    pub fn events(&mut self) -> &mut Events<Connect> {
        &mut self.events
    }
}

impl Rounds for Pooled {
    async fn round(&mut self, epoch: u64, size: usize) {
        let round = self
            .pool
            .inject(epoch, &self.workers, |_| barrier(epoch, size));
        let answers = round.expect("all have a session").collect(LONG).await;
        assert_eq!(answers.expect("all answer").len(), self.workers.len());
    }
}

impl Fleet for Pooled {
    type Courier = PooledCourier;

    fn courier(&self, worker: usize) -> PooledCourier {
        PooledCourier {
            pool: self.pool.clone(),
            worker: self.workers[worker].clone(),
        }
    }

    async fn recv(&mut self) -> Reply {
        loop {
            let event = self.events.recv().await.expect("the pool is open");
            match event.kind {
                EventKind::Message(reply) => return reply,
                EventKind::Disconnected { reason, .. } => panic!("a session ended: {reason}"),
                _ => {}
            }
        }
    }
}

// ===== impl PooledCourier =====

impl Courier for PooledCourier {
    async fn send(&self, message: Command) {
        let sent = self.pool.send(&self.worker, message).await;
        sent.expect("the worker has a session");
    }
}
