//! The floor: workers that are tasks of this process, behind tokio's queues.

use tokio::sync::mpsc;
use tokio::task::JoinSet;

use crate::fleet::{Courier, Fleet, OUTBOX_LEN, Rounds, barrier, obey};
use crate::raw::RawCourier;
use crate::wire::{Command, Reply};

/// Queues to workers in this process.
#[derive(Debug)]
pub struct Floor {
    queues: Vec<mpsc::Sender<Command>>,
    replies: mpsc::Receiver<Reply>,
    // One per worker; aborted when this is dropped.
    _tasks: JoinSet<()>,
}

// ===== impl Floor =====

impl Floor {
    /// Starts this many workers on the present runtime.
    #[must_use]
    pub fn start(workers: usize) -> Self {
        let (sender, replies) = mpsc::channel(OUTBOX_LEN);
        let mut queues = Vec::new();
        let mut tasks = JoinSet::new();
        for _ in 0..workers {
            let (queue, mut commands) = mpsc::channel(OUTBOX_LEN);
            queues.push(queue);
            let sender = sender.clone();
            tasks.spawn(async move {
                let mut counted = 0;
                while let Some(command) = commands.recv().await {
                    if let Some(reply) = obey(command, &mut counted)
                        && sender.send(reply).await.is_err()
                    {
                        return;
                    }
                }
            });
        }
        Self {
            queues,
            replies,
            _tasks: tasks,
        }
    }
}

impl Rounds for Floor {
    async fn round(&mut self, epoch: u64, size: usize) {
        for worker in 0..self.queues.len() {
            self.courier(worker).send(barrier(epoch, size)).await;
        }
        for _ in 0..self.queues.len() {
            assert_eq!(self.recv().await.epoch, Some(epoch));
        }
    }
}

impl Fleet for Floor {
    type Courier = RawCourier;

    fn courier(&self, worker: usize) -> RawCourier {
        RawCourier::new(self.queues[worker].clone())
    }

    async fn recv(&mut self) -> Reply {
        self.replies.recv().await.expect("a worker runs")
    }
}
