//! Keepalive that ends sessions which are well.
#![cfg(feature = "tonic")]
#![expect(clippy::unwrap_used, reason = "a failure is the test's")]

mod real;

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use bidi_session::tonic::{Acceptor, SessionStream};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::task::JoinSet;
use tonic::transport::Server;
use tonic::{Request, Response, Status, Streaming};

use real::wire::worker_server::{Worker, WorkerServer};
use real::{Command, Host, LONG, Node, Reply, connected, failed_attempt, pool, soon};

/// Passes bytes on and counts those of the controller.
struct Counter {
    address: SocketAddr,
    sent: Arc<AtomicU64>,
    _task: JoinSet<()>,
}

impl Counter {
    async fn start(target: SocketAddr) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let sent = Arc::new(AtomicU64::new(0));
        let mut task = JoinSet::new();
        let count = sent.clone();
        task.spawn(async move {
            let mut ways = JoinSet::new();
            loop {
                let (near, _) = listener.accept().await.unwrap();
                let far = TcpStream::connect(target).await.unwrap();
                ways.spawn(pass(near, far, count.clone()));
            }
        });
        Self {
            address,
            sent,
            _task: task,
        }
    }

    fn sent(&self) -> u64 {
        self.sent.load(Ordering::SeqCst)
    }
}

async fn pass(near: TcpStream, far: TcpStream, sent: Arc<AtomicU64>) {
    let (mut near_read, mut near_write) = near.into_split();
    let (mut far_read, mut far_write) = far.into_split();
    let out = async {
        let mut buffer = [0; 4096];
        while let Ok(read @ 1..) = near_read.read(&mut buffer).await {
            sent.fetch_add(read as u64, Ordering::SeqCst);
            if far_write.write_all(&buffer[..read]).await.is_err() {
                return;
            }
        }
    };
    let back = tokio::io::copy(&mut far_read, &mut near_write);
    tokio::join!(out, async { back.await.ok() });
}

/// A worker that complains once, as a server of another library does, and is then one.
struct Complaining {
    has_complained: AtomicBool,
    node: Node,
}

#[tonic::async_trait]
impl Worker for Complaining {
    type ControlStream = SessionStream<Reply>;

    async fn control(
        &self,
        request: Request<Streaming<Command>>,
    ) -> Result<Response<Self::ControlStream>, Status> {
        if !self.has_complained.swap(true, Ordering::SeqCst) {
            return Err(Status::unavailable("Too many pings"));
        }
        self.node.control(request).await
    }

    async fn apply(&self, request: Request<Command>) -> Result<Response<Reply>, Status> {
        self.node.apply(request).await
    }
}

#[tokio::test]
async fn an_idle_session_with_a_live_peer_lasts() {
    let host = Host::start(Node::echo("w1", 1));
    let counter = Counter::start(host.address).await;
    let (pool, mut events) = pool(1);
    pool.insert("w1", real::endpoint(counter.address));
    let (generation, _) = connected(&mut events).await;
    let before = counter.sent();
    // Longer than an interval and a timeout together.
    let told = tokio::time::timeout(Duration::from_secs(12), events.recv()).await;
    assert!(told.is_err(), "{told:?}");
    assert_eq!(pool.state("w1").unwrap().session(), Some(generation));
    assert!(counter.sent() > before, "nothing was pinged");
}

#[tokio::test]
async fn a_peer_that_complains_of_pings_is_left_in_peace_from_then_on() {
    // A server that does not ping either: whatever is sent is the controller's.
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let complaining = Complaining {
        has_complained: AtomicBool::new(false),
        node: Node::new(Acceptor::new("w1", 1, 0), real::echo),
    };
    let mut server = JoinSet::new();
    let incoming = tonic::transport::server::TcpIncoming::from(listener);
    server.spawn(
        Server::builder()
            .add_service(WorkerServer::new(complaining))
            .serve_with_incoming(incoming),
    );
    let counter = Counter::start(address).await;
    let (pool, mut events) = pool(1);
    pool.insert("w1", real::endpoint(counter.address));
    let failed = failed_attempt(&mut events).await;
    assert!(failed.contains("Too many pings"), "{failed}");
    connected(&mut events).await;
    pool.ready(["w1"], LONG).await.unwrap();
    // Past the exchange at the start; a ping after 5 s would fall into the rest.
    tokio::time::sleep(Duration::from_secs(1)).await;
    let before = counter.sent();
    tokio::time::sleep(Duration::from_secs(7)).await;
    assert_eq!(counter.sent(), before);
    soon(pool.close()).await;
}
