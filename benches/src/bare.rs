//! One stream that the measuring loop reads itself: what tonic alone costs.
//!
//! No task and no queue of answers stand between, so this serves one worker only; it is
//! shown to tell the price of a task from the price of the pool.

use tokio::sync::mpsc;
use tokio_stream::wrappers::ReceiverStream;
use tonic::Streaming;

use crate::fleet::{Courier, Fleet, OUTBOX_LEN, Rounds, barrier, endpoint};
use crate::raw::RawCourier;
use crate::server::Server;
use crate::wire::worker_client::WorkerClient;
use crate::wire::{Command, Reply};

/// A stream to the first worker of a server.
#[derive(Debug)]
pub struct Bare {
    queue: mpsc::Sender<Command>,
    stream: Streaming<Reply>,
}

// ===== impl Bare =====

impl Bare {
    /// Opens the stream.
    ///
    /// # Panics
    ///
    /// Where it cannot be opened.
    pub async fn connect(server: &Server) -> Self {
        let channel = endpoint(server.address(0)).connect().await;
        let mut client = WorkerClient::new(channel.expect("the server listens"));
        let (queue, commands) = mpsc::channel(OUTBOX_LEN);
        let response = client.control(ReceiverStream::new(commands)).await;
        let stream = response.expect("the server answers").into_inner();
        Self { queue, stream }
    }
}

impl Rounds for Bare {
    async fn round(&mut self, epoch: u64, size: usize) {
        self.courier(0).send(barrier(epoch, size)).await;
        assert_eq!(self.recv().await.epoch, Some(epoch));
    }
}

impl Fleet for Bare {
    type Courier = RawCourier;

    fn courier(&self, _: usize) -> RawCourier {
        RawCourier::new(self.queue.clone())
    }

    async fn recv(&mut self) -> Reply {
        let reply = self.stream.message().await.expect("the stream is open");
        reply.expect("the stream is open")
    }
}
