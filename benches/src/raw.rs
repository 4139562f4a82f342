//! The baseline: tonic's bidirectional streams, as one writes them by hand.
//!
//! Each worker has one channel, one queue of 256 that is its request stream, and one task
//! that reads its answers into the owner's queue. Nothing is reconnected.

use tokio::sync::mpsc;
use tokio::task::JoinSet;
use tokio_stream::wrappers::ReceiverStream;

use crate::fleet::{Courier, Fleet, OUTBOX_LEN, Rounds, barrier, endpoint};
use crate::server::Server;
use crate::wire::worker_client::WorkerClient;
use crate::wire::{Command, Reply};

/// Connects at one time, at most, as the pool does.
const DIALS: usize = 64;

/// Hand-written streams to all workers of a server.
#[derive(Debug)]
pub struct Raw {
    queues: Vec<mpsc::Sender<Command>>,
    replies: mpsc::Receiver<(usize, Reply)>,
    // One per worker; aborted when this is dropped.
    _tasks: JoinSet<()>,
}

/// A queue of one stream.
#[derive(Debug)]
pub struct RawCourier {
    queue: mpsc::Sender<Command>,
}

// ===== impl Raw =====

impl Raw {
    /// Opens a stream to each worker.
    ///
    /// # Panics
    ///
    /// Where one cannot be opened.
    pub async fn connect(server: &Server) -> Self {
        // Room for what all workers may send, so that none waits for the others.
        let (sender, replies) = mpsc::channel(OUTBOX_LEN * server.workers());
        let mut queues = Vec::new();
        let mut tasks = JoinSet::new();
        let workers: Vec<usize> = (0..server.workers()).collect();
        for some in workers.chunks(DIALS) {
            let streams = some.iter().map(|worker| async move {
                let channel = endpoint(server.address(*worker)).connect().await;
                let channel = channel.expect("the server listens");
                let (queue, commands) = mpsc::channel(OUTBOX_LEN);
                let mut client = WorkerClient::new(channel);
                let response = client.control(ReceiverStream::new(commands)).await;
                let stream = response.expect("the server answers").into_inner();
                (*worker, queue, stream)
            });
            for (worker, queue, mut stream) in futures_util::future::join_all(streams).await {
                queues.push(queue);
                let sender = sender.clone();
                tasks.spawn(async move {
                    while let Ok(Some(reply)) = stream.message().await {
                        if sender.send((worker, reply)).await.is_err() {
                            return;
                        }
                    }
                });
            }
        }
        Self {
            queues,
            replies,
            _tasks: tasks,
        }
    }
}

impl Rounds for Raw {
    async fn round(&mut self, epoch: u64, size: usize) {
        for queue in &self.queues {
            let sent = queue.send(barrier(epoch, size)).await;
            sent.expect("the stream is open");
        }
        let mut answers: Vec<Option<Reply>> = Vec::new();
        answers.resize_with(self.queues.len(), || None);
        let mut missing = answers.len();
        while missing > 0 {
            let (worker, reply) = self.replies.recv().await.expect("a stream is open");
            if reply.epoch == Some(epoch) && answers[worker].replace(reply).is_none() {
                missing -= 1;
            }
        }
    }
}

impl Fleet for Raw {
    type Courier = RawCourier;

    fn courier(&self, worker: usize) -> RawCourier {
        RawCourier::new(self.queues[worker].clone())
    }

    async fn recv(&mut self) -> Reply {
        self.replies.recv().await.expect("a stream is open").1
    }
}

// ===== impl RawCourier =====

impl RawCourier {
    pub(crate) fn new(queue: mpsc::Sender<Command>) -> Self {
        Self { queue }
    }
}

impl Courier for RawCourier {
    async fn send(&self, message: Command) {
        let sent = self.queue.send(message).await;
        sent.expect("the stream is open");
    }
}
