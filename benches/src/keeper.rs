//! The baseline of reconnecting: a loop per worker, as one writes it by hand.
//!
//! It dials again at once when its stream ends and 100 ms after a failed attempt, without
//! a bound of attempts at one time, jitter, a deadline or an order of takeover.

use std::time::Duration;

use bidi_session::EventKind;
use tokio::sync::mpsc;
use tokio::task::JoinSet;
use tokio_stream::wrappers::ReceiverStream;

use crate::fleet::{OUTBOX_LEN, Rounds, endpoint};
use crate::pooled::Pooled;
use crate::server::Server;
use crate::wire::worker_client::WorkerClient;

/// What becomes of streams that are kept up.
pub trait Keeper {
    /// Waits for the next change of a stream.
    fn change(&mut self) -> impl Future<Output = Change>;

    /// Brings a message over each stream: the pool dials at once again only after a
    /// session that was of use.
    fn use_all(&mut self, epoch: u64) -> impl Future<Output = ()>;

    /// Waits until each of so many streams was lost and all are up again.
    fn lost_and_back(&mut self, workers: usize) -> impl Future<Output = ()> {
        async move {
            let (mut lost, mut back) = (0, 0);
            while lost < workers || back < lost {
                match self.change().await {
                    Change::Lost => lost += 1,
                    Change::Up => back += 1,
                }
            }
        }
    }
}

/// What became of one stream.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Change {
    /// It was opened.
    Up,
    /// It ended.
    Lost,
}

/// Loops that keep a stream to each worker of a server.
#[derive(Debug)]
pub struct Loops {
    changes: mpsc::Receiver<Change>,
    // One per worker; aborted when this is dropped.
    _tasks: JoinSet<()>,
}

// ===== impl Loops =====

impl Loops {
    /// Starts the loops and waits until each stream is open.
    ///
    /// # Panics
    ///
    /// Where a stream is lost meanwhile.
    pub async fn connect(server: &Server) -> Self {
        let (sender, mut changes) = mpsc::channel(OUTBOX_LEN);
        let mut tasks = JoinSet::new();
        for worker in 0..server.workers() {
            let address = server.address(worker);
            let sender = sender.clone();
            tasks.spawn(async move {
                loop {
                    let _ = keep(endpoint(address), &sender).await;
                    if sender.is_closed() {
                        return;
                    }
                }
            });
        }
        for _ in 0..server.workers() {
            assert_eq!(changes.recv().await, Some(Change::Up));
        }
        Self {
            changes,
            _tasks: tasks,
        }
    }
}

impl Keeper for Loops {
    async fn change(&mut self) -> Change {
        self.changes.recv().await.expect("the loops run")
    }

    async fn use_all(&mut self, _: u64) {}
}

impl Keeper for Pooled {
    async fn change(&mut self) -> Change {
        loop {
            let event = self.events().recv().await.expect("the pool is open");
            match event.kind {
                EventKind::Connected { .. } => return Change::Up,
                EventKind::Disconnected { .. } => return Change::Lost,
                _ => {}
            }
        }
    }

    async fn use_all(&mut self, epoch: u64) {
        self.round(epoch, 1).await;
    }
}

/// Opens a stream and reads it to its end.
async fn keep(
    endpoint: tonic::transport::Endpoint,
    changes: &mpsc::Sender<Change>,
) -> Result<(), Box<dyn std::error::Error + Send + Sync>> {
    let (_queue, commands) = mpsc::channel(OUTBOX_LEN);
    let opened = async {
        let channel = endpoint.connect().await?;
        let mut client = WorkerClient::new(channel);
        let response = client.control(ReceiverStream::new(commands)).await?;
        Ok::<_, Box<dyn std::error::Error + Send + Sync>>(response.into_inner())
    };
    let mut stream = match opened.await {
        Ok(stream) => stream,
        Err(error) => {
            tokio::time::sleep(Duration::from_millis(100)).await;
            return Err(error);
        }
    };
    changes.send(Change::Up).await?;
    while let Ok(Some(_)) = stream.message().await {}
    changes.send(Change::Lost).await?;
    Ok(())
}
