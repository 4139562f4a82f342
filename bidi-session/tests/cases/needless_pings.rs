//! Keepalive that ends sessions which are well.

use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use bidi_session::tonic::{Acceptor, FaultProxy, SessionStream};
use tokio::net::TcpListener;
use tokio::task::JoinSet;
use tonic::transport::Server;
use tonic::{Request, Response, Status, Streaming};

use super::real::wire::worker_server::{Worker, WorkerServer};
use super::real::{
    Command, Host, LONG, Node, Reply, connected, echo, endpoint, failed_attempt, pool, soon,
};

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
    let proxy = FaultProxy::start(host.address).unwrap();
    let (pool, mut events) = pool(1);
    pool.insert("w1", endpoint(proxy.address()));
    let (generation, _) = connected(&mut events).await;
    let before = proxy.counts().to_target.passed;
    // Longer than an interval and a timeout together.
    let told = tokio::time::timeout(Duration::from_secs(12), events.recv()).await;
    assert!(told.is_err(), "{told:?}");
    assert_eq!(pool.state("w1").unwrap().session(), Some(generation));
    assert!(
        proxy.counts().to_target.passed > before,
        "nothing was pinged"
    );
}

#[tokio::test]
async fn a_peer_that_complains_of_pings_is_left_in_peace_from_then_on() {
    // A server that does not ping either: whatever is sent is the controller's.
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let complaining = Complaining {
        has_complained: AtomicBool::new(false),
        node: Node::new(Acceptor::new("w1", 1, 0), echo),
    };
    let mut server = JoinSet::new();
    let incoming = tonic::transport::server::TcpIncoming::from(listener);
    server.spawn(
        Server::builder()
            .add_service(WorkerServer::new(complaining))
            .serve_with_incoming(incoming),
    );
    let proxy = FaultProxy::start(address).unwrap();
    let (pool, mut events) = pool(1);
    pool.insert("w1", endpoint(proxy.address()));
    let failed = failed_attempt(&mut events).await;
    assert!(failed.contains("Too many pings"), "{failed}");
    connected(&mut events).await;
    pool.ready(["w1"], LONG).await.unwrap();
    // Past the exchange at the start; a ping after 5 s would fall into the rest.
    tokio::time::sleep(Duration::from_secs(1)).await;
    let before = proxy.counts().to_target.passed;
    tokio::time::sleep(Duration::from_secs(5)).await;
    assert_eq!(proxy.counts().to_target.passed, before);
    soon(pool.close()).await;
}
