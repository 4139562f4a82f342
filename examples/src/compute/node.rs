//! The gRPC service of a compute node: one session at a time, the highest term wins.

use std::io;
use std::time::Duration;

use bidi_session::tonic::{Acceptor, Session, SessionStream};
use fencing::Fence;
use tokio::sync::{mpsc, watch};
use tokio::time::{MissedTickBehavior, interval};
use tonic::{Request, Response, Status, Streaming};

use super::counter::Counter;
use super::snapshots::Fenced;
use super::thread::{self, Mark, Order};
use crate::wire::compute_server::Compute;
use crate::wire::{Command, Progress, Reply, reply};

/// Commands under way to the node's thread; a session waits where it is full.
const ORDERS: usize = 16;

/// How often a session reports progress while the node reads.
const REPORT_EVERY: Duration = Duration::from_millis(50);

/// One compute node; dropping it ends its thread after the chunk under way.
#[derive(Clone, Debug)]
pub struct Node {
    acceptor: Acceptor,
    orders: mpsc::Sender<Order>,
    progress: watch::Receiver<Progress>,
    snapshots: Option<Fenced>,
    #[cfg(feature = "controls")]
    any_term: Option<super::any_term::AnyTerm>,
}

impl Node {
    /// Starts the node's thread.
    ///
    /// # Errors
    ///
    /// Those of starting a thread.
    pub fn start(acceptor: Acceptor, counter: Counter) -> io::Result<Self> {
        Self::start_with(acceptor, counter, None)
    }

    /// Starts a node whose commands `fence` admits, by tokens of `scope`.
    ///
    /// So no snapshot of a lower term appears, and none is removed, once a higher one was
    /// admitted, also after a restart.
    ///
    /// # Errors
    ///
    /// Those of starting a thread.
    pub fn start_fenced(
        acceptor: Acceptor,
        counter: Counter,
        fence: Fence,
        scope: String,
    ) -> io::Result<Self> {
        let snapshots = counter.files().behind(fence.clone());
        let mut node = Self::start_with(acceptor, counter, Some(Mark { fence, scope }))?;
        node.snapshots = Some(snapshots);
        Ok(node)
    }

    fn start_with(acceptor: Acceptor, counter: Counter, mark: Option<Mark>) -> io::Result<Self> {
        let (orders, received) = mpsc::channel(ORDERS);
        let progress = thread::spawn(counter, received, mark)?;
        Ok(Self {
            acceptor,
            orders,
            progress,
            snapshots: None,
            #[cfg(feature = "controls")]
            any_term: None,
        })
    }

    /// Lets no session end another, as a worker without the check of terms would.
    #[cfg(feature = "controls")]
    #[must_use]
    pub fn with_any_term(mut self, any_term: super::any_term::AnyTerm) -> Self {
        self.any_term = Some(any_term);
        self
    }

    /// Returns the service that removes files, where a fence admits its calls.
    pub(super) fn snapshots(&self) -> Option<Fenced> {
        self.snapshots.clone()
    }

    /// Returns what admits the next session.
    fn door(&self) -> Acceptor {
        #[cfg(feature = "controls")]
        if let Some(any_term) = &self.any_term {
            return any_term.acceptor();
        }
        self.acceptor.clone()
    }

    /// Returns what admits the sessions of this node.
    #[must_use]
    pub fn acceptor(&self) -> &Acceptor {
        &self.acceptor
    }

    /// Serves one session until its controller is gone or superseded.
    async fn drive(mut self, mut session: Session<Command, Reply>) {
        self.follow(&mut session).await;
        // Before the session is dropped, and so before the next one begins.
        let _ = self.orders.send(Order::Stop).await;
        drop(session);
    }

    /// Hands commands to the thread and its answers to the session, until either ends.
    async fn follow(&mut self, session: &mut Session<Command, Reply>) {
        // Answers to this session's commands only: they end with it.
        let (answers, mut answered) = mpsc::channel(ORDERS);
        let mut ticks = interval(REPORT_EVERY);
        ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
        let mut reported = Progress::default();
        loop {
            let reply = tokio::select! {
                command = session.recv() => {
                    let Some(command) = command else { return };
                    let order = Order::Do {
                        term: session.term(),
                        command,
                        reply: answers.clone(),
                    };
                    if self.orders.send(order).await.is_err() {
                        return;
                    }
                    continue;
                }
                Some(answer) = answered.recv() => answer,
                progress = next_report(&mut self.progress, &mut ticks, &reported) => {
                    reported = progress;
                    report(progress)
                }
            };
            if session.send(reply).await.is_err() {
                return;
            }
        }
    }
}

/// Waits for news: at once where the node waits for a barrier, else at the next tick.
async fn next_report(
    progress: &mut watch::Receiver<Progress>,
    ticks: &mut tokio::time::Interval,
    reported: &Progress,
) -> Progress {
    loop {
        let now = *progress.borrow_and_update();
        if now.waiting && now != *reported {
            return now;
        }
        tokio::select! {
            changed = progress.changed() => if changed.is_err() { std::future::pending().await },
            _ = ticks.tick() => if now != *reported { return now },
        }
    }
}

fn report(progress: Progress) -> Reply {
    Reply {
        epoch: None,
        kind: Some(reply::Kind::Progress(progress)),
    }
}

#[tonic::async_trait]
impl Compute for Node {
    type ControlStream = SessionStream<Reply>;

    async fn control(
        &self,
        request: Request<Streaming<Command>>,
    ) -> Result<Response<Self::ControlStream>, Status> {
        let (node, door) = (self.clone(), self.door());
        let held = door.clone();
        let handler = |session| async move {
            node.drive(session).await;
            // The last one would end the session when it goes.
            drop(held);
        };
        door.serve(request, handler).await
    }
}
