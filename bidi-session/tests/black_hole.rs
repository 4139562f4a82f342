//! Networks that swallow everything without a word.
#![cfg(feature = "tonic")]
#![expect(clippy::unwrap_used, reason = "a failure is the test's")]

mod real;

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use bidi_session::PoolConfig;
use bidi_session::tonic::Acceptor;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream, tcp};
use tokio::task::JoinSet;
use tokio::time::Instant;

use real::{Host, Node, connected, disconnected, endpoint, pool_with, soon, within};

/// Keepalive notices within 10 s; the rest is for a busy machine.
const DETECTION: Duration = Duration::from_secs(13);

/// Forwards bytes until it is told to swallow them.
struct Proxy {
    address: SocketAddr,
    is_hole: Arc<AtomicBool>,
    swallowed: Arc<AtomicU64>,
    _tasks: JoinSet<()>,
}

impl Proxy {
    async fn start(target: SocketAddr) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let is_hole = Arc::new(AtomicBool::new(false));
        let swallowed = Arc::new(AtomicU64::new(0));
        let (hole, count) = (is_hole.clone(), swallowed.clone());
        let mut tasks = JoinSet::new();
        tasks.spawn(async move {
            let mut pipes = JoinSet::new();
            loop {
                let (near, _) = listener.accept().await.unwrap();
                let far = TcpStream::connect(target).await.unwrap();
                let (near_read, near_write) = near.into_split();
                let (far_read, far_write) = far.into_split();
                pipes.spawn(pipe(near_read, far_write, hole.clone(), count.clone()));
                pipes.spawn(pipe(far_read, near_write, hole.clone(), count.clone()));
            }
        });
        Self {
            address,
            is_hole,
            swallowed,
            _tasks: tasks,
        }
    }

    fn swallow(&self, is_hole: bool) {
        self.is_hole.store(is_hole, Ordering::SeqCst);
    }
}

/// Keeps its sockets open for ever once it has swallowed something.
async fn pipe(
    mut from: tcp::OwnedReadHalf,
    mut to: tcp::OwnedWriteHalf,
    is_hole: Arc<AtomicBool>,
    swallowed: Arc<AtomicU64>,
) {
    let mut buffer = [0; 16 * 1024];
    loop {
        let read = from.read(&mut buffer).await.unwrap_or(0);
        if is_hole.load(Ordering::SeqCst) {
            swallowed.fetch_add(read as u64, Ordering::SeqCst);
            if read == 0 {
                std::future::pending::<()>().await;
            }
        } else if read == 0 || to.write_all(&buffer[..read]).await.is_err() {
            return;
        }
    }
}

#[tokio::test]
async fn both_sides_notice_a_silent_network_and_meet_again_after_it() {
    let (node, mut sessions) = Node::played(Acceptor::new("w1", 1, 0));
    let host = Host::start(node);
    let proxy = Proxy::start(host.address).await;
    let config = PoolConfig::new(1).with_attempt_timeout(Duration::from_secs(1));
    let (pool, mut events) = pool_with(config);
    pool.insert("w1", endpoint(proxy.address));
    let (first, _) = connected(&mut events).await;
    let mut session = soon(sessions.recv()).await.unwrap();
    let start = Instant::now();
    proxy.swallow(true);
    let worker = tokio::spawn(async move {
        assert!(session.recv().await.is_none());
        session.sender().over().await;
    });
    let (ended, reason) = within(DETECTION, disconnected(&mut events)).await;
    assert_eq!(ended, first);
    assert!(start.elapsed() > Duration::from_secs(4), "{reason}");
    within(DETECTION, worker).await.unwrap();
    let swallowed = proxy.swallowed.load(Ordering::SeqCst);
    assert!(swallowed > 0);
    proxy.swallow(false);
    let (second, _) = connected(&mut events).await;
    assert!(second > first);
    println!("CASE half-open fault={swallowed}");
}
