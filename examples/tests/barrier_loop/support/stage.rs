//! A stage for one leader: an input, an output folder, and a candidate on it.

use std::future::Future;
use std::net::SocketAddr;
use std::path::Path;
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use bidi_session::WorkerId;
use bidi_session::tonic::{Acceptor, Session, SessionStream};
use clap::Parser;
use examples::cli::Args;
use examples::compute::Counter;
use examples::embedded::{Setup, finish};
use examples::journal::Journal;
use examples::meta::{Candidate, NoHooks};
use examples::requests::NoRequests;
use examples::roster::{Place, Roster};
use examples::status::Status;
use examples::totals::Totals;
use examples::wire::compute_server::{Compute, ComputeServer};
use examples::wire::{Command, Reply, reply};
use fencing::{Watchdog, WatchdogConfig};
use leader_election::{ElectionConfig, MemoryElection};
use tokio::net::TcpListener;
use tokio::sync::watch;
use tonic::transport::server::TcpIncoming;
use tonic::transport::{Endpoint, Server};
use tonic::{Request, Response, Status as Refusal, Streaming};

/// An input and an output folder, opened.
pub(crate) struct Stage {
    pub(crate) setup: Setup,
    pub(crate) journal: Journal,
    pub(crate) status: watch::Sender<Status>,
}

impl Stage {
    pub(crate) fn new(input: &Path, out: &Path, epoch_bytes: &str) -> Self {
        let out = out.to_str().unwrap();
        let args = ["barrier-loop", "--epoch-bytes", epoch_bytes, "--out", out];
        let args = args.into_iter().chain([input.to_str().unwrap()]);
        Self {
            setup: Setup::new(&Args::parse_from(args)).unwrap(),
            journal: Journal::default(),
            status: watch::channel(Status::default()).0,
        }
    }

    /// A counter of this input, for a worker of the test's own.
    pub(crate) fn counter(&self, worker: &str) -> Counter {
        let deltas = self.setup.store.deltas();
        Counter::new(worker, Arc::clone(&self.setup.plan), deltas)
    }

    /// A candidate that leads these workers.
    pub(crate) fn candidate(&self, roster: Roster) -> Candidate {
        let watchdog = Watchdog::start(WatchdogConfig::default()).unwrap();
        let config = ElectionConfig::default().with_reserve(watchdog.reserve());
        let first_token = self.setup.store.highest_token() + 1;
        Candidate {
            name: "meta-1".to_owned(),
            election: Arc::new(MemoryElection::new(config, first_token)),
            watchdog,
            ledger: Arc::new(self.setup.store.clone()),
            input: Arc::clone(&self.setup.plan).into(),
            roster: watch::channel(roster).1,
            requests: Arc::new(NoRequests),
            settings: self.setup.settings.clone(),
            status: self.status.clone(),
            journal: self.journal.clone(),
            hooks: Arc::new(NoHooks),
        }
    }

    /// Merges and compares; fails unless equal.
    #[track_caller]
    pub(crate) fn expect_equal(&self) -> Totals {
        let totals = finish(&self.setup.store, &self.setup.plan, 3, true, || true).unwrap();
        assert_eq!(totals.difference, None);
        totals
    }
}

/// What a worker of the test's own does with a session.
pub(crate) type Script =
    Arc<dyn Fn(Session<Command, Reply>) -> Pin<Box<dyn Future<Output = ()> + Send>> + Send + Sync>;

/// A worker of the test's own: a real server, its sessions driven by a script.
#[derive(Clone)]
pub(crate) struct Scripted {
    pub(crate) acceptor: Acceptor,
    pub(crate) script: Script,
}

#[tonic::async_trait]
impl Compute for Scripted {
    type ControlStream = SessionStream<Reply>;

    async fn control(
        &self,
        request: Request<Streaming<Command>>,
    ) -> Result<Response<Self::ControlStream>, Refusal> {
        let script = Arc::clone(&self.script);
        self.acceptor
            .serve(request, move |session| script(session))
            .await
    }
}

/// Serves it on this listener until the returned set is dropped.
pub(crate) fn serve(worker: Scripted, listener: TcpListener) -> tokio::task::JoinSet<()> {
    let mut serving = tokio::task::JoinSet::new();
    serving.spawn(async move {
        Server::builder()
            .add_service(ComputeServer::new(worker))
            .serve_with_incoming(TcpIncoming::from(listener).with_nodelay(Some(true)))
            .await
            .unwrap();
    });
    serving
}

/// Carries a command out and reads on to the next barrier; the answer, and a report that
/// says so.
pub(crate) fn carry_out(counter: &mut Counter, command: Command) -> [Reply; 2] {
    let right = counter.command(command);
    while counter.has_work() {
        counter.step();
    }
    let report = Reply {
        epoch: None,
        kind: Some(reply::Kind::Progress(counter.progress())),
    };
    [right, report]
}

/// Serves a worker of the test's own on a free port; returns where.
pub(crate) async fn scripted(
    id: &str,
    script: Script,
) -> (WorkerId, Place, tokio::task::JoinSet<()>) {
    let acceptor = Acceptor::new(id, 1, 0);
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let place = Place::new(endpoint(listener.local_addr().unwrap()));
    let serving = serve(Scripted { acceptor, script }, listener);
    (WorkerId::from(id), place, serving)
}

pub(crate) fn endpoint(address: SocketAddr) -> Endpoint {
    Endpoint::from_shared(format!("http://{address}")).unwrap()
}

/// Fails the test where something takes longer than it ever should.
pub(crate) async fn in_time<F: Future>(what: &str, future: F) -> F::Output {
    match tokio::time::timeout(Duration::from_secs(60), future).await {
        Ok(output) => output,
        Err(_) => panic!("{what} takes too long"),
    }
}
