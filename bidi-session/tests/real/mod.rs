//! Real workers on loopback: each server has a runtime of its own, so that killing it
//! closes its sockets as the death of a process does.
#![allow(
    dead_code,
    clippy::unwrap_used,
    unreachable_pub,
    reason = "each test file uses a part of it; a failure is the test's"
)]

use std::net::{SocketAddr, TcpListener as StdListener};
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use bidi_session::tonic::{
    Acceptor, KEEPALIVE_INTERVAL, KEEPALIVE_TIMEOUT, Session, SessionStream, Tonic,
};
use bidi_session::{Event, EventKind, Events, Pool, PoolConfig};
use tokio::net::TcpListener;
use tokio::runtime::{Builder, Runtime};
use tokio::sync::mpsc;
use tonic::transport::server::TcpIncoming;
use tonic::transport::{Endpoint, Server};
use tonic::{Request, Response, Status, Streaming};

#[allow(
    missing_docs,
    unused_qualifications,
    clippy::all,
    clippy::allow_attributes_without_reason,
    clippy::too_many_lines,
    reason = "generated"
)]
pub(crate) mod wire {
    include!("../gen/worker.v1.rs");
}

pub(crate) use wire::worker_client::WorkerClient;
use wire::worker_server::{Worker, WorkerServer};
pub(crate) use wire::{Command, Reply};

pub(crate) type Connect = Tonic<Command, Reply>;
pub(crate) type WorkerSession = Session<Command, Reply>;
type Work = Pin<Box<dyn Future<Output = ()> + Send>>;
type Handler = dyn Fn(WorkerSession) -> Work + Send + Sync;

/// Far above what any step takes.
pub(crate) const LONG: Duration = Duration::from_secs(30);

/// Time for what must not wait for a timer; less than the 10 s in which keepalive would
/// notice, and enough for a machine that is busy with other things.
pub(crate) const AT_ONCE: Duration = Duration::from_secs(5);

/// A worker's service.
#[derive(Clone)]
pub(crate) struct Node {
    pub(crate) acceptor: Acceptor,
    pub(crate) calls: Arc<AtomicU32>,
    handler: Arc<Handler>,
}

/// A server that can be killed.
pub(crate) struct Host {
    pub(crate) address: SocketAddr,
    runtime: Option<Runtime>,
}

// ===== impl Node =====

impl Node {
    /// A worker that runs this handler with each session.
    pub(crate) fn new<F, Fut>(acceptor: Acceptor, handler: F) -> Self
    where
        F: Fn(WorkerSession) -> Fut + Send + Sync + 'static,
        Fut: Future<Output = ()> + Send + 'static,
    {
        Self {
            acceptor,
            calls: Arc::default(),
            handler: Arc::new(move |session| Box::pin(handler(session))),
        }
    }

    /// A worker that answers each command with its own epoch and body.
    pub(crate) fn echo(worker: &str, incarnation: u64) -> Self {
        Self::new(Acceptor::new(worker, incarnation, 0), echo)
    }

    /// A worker whose sessions a test plays, one after the other.
    pub(crate) fn played(acceptor: Acceptor) -> (Self, mpsc::Receiver<WorkerSession>) {
        let (sessions, played) = mpsc::channel(16);
        let node = Self::new(acceptor, move |session| {
            let sessions = sessions.clone();
            async move {
                let sender = session.sender();
                sessions.send(session).await.unwrap();
                sender.over().await;
            }
        });
        (node, played)
    }

    pub(crate) fn calls(&self) -> u32 {
        self.calls.load(Ordering::SeqCst)
    }
}

#[tonic::async_trait]
impl Worker for Node {
    type ControlStream = SessionStream<Reply>;

    async fn control(
        &self,
        request: Request<Streaming<Command>>,
    ) -> Result<Response<Self::ControlStream>, Status> {
        self.calls.fetch_add(1, Ordering::SeqCst);
        let handler = self.handler.clone();
        let handler = move |session| handler(session);
        self.acceptor.serve(request, handler).await
    }

    async fn apply(&self, _: Request<Command>) -> Result<Response<Reply>, Status> {
        Err(Status::unimplemented("streams only"))
    }
}

/// Answers each command with its own epoch and body.
pub(crate) async fn echo(mut session: WorkerSession) {
    while let Some(command) = session.recv().await {
        if session.send(answer(command)).await.is_err() {
            break;
        }
    }
}

pub(crate) fn answer(command: Command) -> Reply {
    Reply {
        epoch: (command.epoch > 0).then_some(command.epoch),
        body: command.body,
    }
}

// ===== impl Host =====

impl Host {
    /// Serves on a free port of 127.0.0.1.
    pub(crate) fn start(node: impl Worker) -> Self {
        Self::start_at(SocketAddr::from(([127, 0, 0, 1], 0)), node)
    }

    pub(crate) fn start_at(address: SocketAddr, node: impl Worker) -> Self {
        let mut builder = Builder::new_multi_thread();
        let runtime = builder.worker_threads(1).enable_all().build().unwrap();
        let address = serve(&runtime, address, node);
        Self {
            address,
            runtime: Some(runtime),
        }
    }

    /// Serves another worker beside, which dies with this one.
    pub(crate) fn also(&self, node: impl Worker) -> SocketAddr {
        let runtime = self.runtime.as_ref().unwrap();
        serve(runtime, SocketAddr::from(([127, 0, 0, 1], 0)), node)
    }

    pub(crate) fn endpoint(&self) -> Endpoint {
        endpoint(self.address)
    }

    /// Counts the tasks of its servers.
    pub(crate) fn tasks(&self) -> usize {
        self.runtime.as_ref().unwrap().metrics().num_alive_tasks()
    }

    /// Ends all its tasks at once; its sockets close.
    pub(crate) fn kill(mut self) {
        self.stop();
    }

    fn stop(&mut self) {
        if let Some(runtime) = self.runtime.take() {
            runtime.shutdown_background();
        }
    }
}

impl Drop for Host {
    fn drop(&mut self) {
        self.stop();
    }
}

fn serve(runtime: &Runtime, address: SocketAddr, node: impl Worker) -> SocketAddr {
    let _inside = runtime.enter();
    let listener = listen(address);
    let address = listener.local_addr().unwrap();
    let server = Server::builder()
        .http2_keepalive_interval(Some(KEEPALIVE_INTERVAL))
        .http2_keepalive_timeout(Some(KEEPALIVE_TIMEOUT))
        .add_service(WorkerServer::new(node))
        .serve_with_incoming(TcpIncoming::from(listener).with_nodelay(Some(true)));
    runtime.spawn(server);
    address
}

/// Listens; a port that a killed server has just left may take a moment to be free.
pub(crate) fn listen(address: SocketAddr) -> TcpListener {
    for _ in 0..1000 {
        let socket = match address {
            SocketAddr::V4(_) => tokio::net::TcpSocket::new_v4(),
            SocketAddr::V6(_) => tokio::net::TcpSocket::new_v6(),
        };
        let socket = socket.unwrap();
        socket.set_reuseaddr(true).unwrap();
        if let Ok(listener) = socket.bind(address).and_then(|()| socket.listen(1024)) {
            return listener;
        }
        std::thread::sleep(Duration::from_millis(2));
    }
    panic!("{address} cannot be listened on");
}

/// Returns an address on which nobody listens.
pub(crate) fn unused_address() -> SocketAddr {
    let listener = StdListener::bind("127.0.0.1:0").unwrap();
    listener.local_addr().unwrap()
}

pub(crate) fn endpoint(address: SocketAddr) -> Endpoint {
    Endpoint::from_shared(format!("http://{address}")).unwrap()
}

// ===== The controller =====

pub(crate) fn connect() -> Connect {
    Tonic::new(|channel, request| async move { WorkerClient::new(channel).control(request).await })
        .with_answers(|reply: &Reply| reply.epoch)
}

pub(crate) fn pool(term: u64) -> (Pool<Connect>, Events<Connect>) {
    pool_with(PoolConfig::new(term))
}

/// Makes a pool with short delays, so that tests in real time are short.
pub(crate) fn pool_with(config: PoolConfig) -> (Pool<Connect>, Events<Connect>) {
    let (base, cap) = (Duration::from_millis(10), Duration::from_millis(100));
    let config = config
        .with_backoff(base, cap)
        .with_blocked_retry(cap)
        .with_seed(7);
    Pool::new(connect(), config)
}

pub(crate) fn command(body: impl AsRef<[u8]>) -> Command {
    Command {
        epoch: 0,
        body: body.as_ref().to_vec(),
    }
}

pub(crate) fn barrier(epoch: u64) -> Command {
    Command {
        epoch,
        body: Vec::new(),
    }
}

pub(crate) fn reply(epoch: u64) -> Reply {
    Reply {
        epoch: Some(epoch),
        body: Vec::new(),
    }
}

pub(crate) fn note(body: impl AsRef<[u8]>) -> Reply {
    Reply {
        epoch: None,
        body: body.as_ref().to_vec(),
    }
}

/// Waits for what must come.
pub(crate) async fn soon<F: Future>(what: F) -> F::Output {
    within(LONG, what).await
}

pub(crate) async fn within<F: Future>(limit: Duration, what: F) -> F::Output {
    let in_time = tokio::time::timeout(limit, what).await;
    in_time.expect("it did not come in time")
}

/// Returns the next event that is no failed attempt.
pub(crate) async fn next(events: &mut Events<Connect>) -> Event<Reply> {
    // One limit for all of them: attempts may fail for ever.
    soon(async {
        loop {
            let event = events.recv().await.expect("the pool is closed");
            if !matches!(event.kind, EventKind::AttemptFailed { .. }) {
                return event;
            }
        }
    })
    .await
}

/// Waits for a session and returns its generation and the worker's incarnation.
pub(crate) async fn connected(events: &mut Events<Connect>) -> (u64, Option<u64>) {
    let event = next(events).await;
    match event.kind {
        EventKind::Connected { incarnation, .. } => (event.generation, incarnation),
        kind => panic!("not connected: {kind:?}"),
    }
}

/// Waits for the end of a session and returns its generation and reason.
pub(crate) async fn disconnected(events: &mut Events<Connect>) -> (u64, String) {
    let event = next(events).await;
    match event.kind {
        EventKind::Disconnected { reason, .. } => (event.generation, reason.to_string()),
        kind => panic!("not disconnected: {kind:?}"),
    }
}

/// Waits for a failed attempt and returns its reason.
pub(crate) async fn failed_attempt(events: &mut Events<Connect>) -> String {
    let event = soon(events.recv()).await.expect("the pool is closed");
    match event.kind {
        EventKind::AttemptFailed { error, .. } => error.to_string(),
        kind => panic!("no failed attempt: {kind:?}"),
    }
}
