//! A man in the middle who can swallow everything and stay silent.

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::tcp::{OwnedReadHalf, OwnedWriteHalf};
use tokio::net::{TcpListener, TcpStream};
use tokio::task::JoinSet;

/// Passes bytes on in both directions until it is told to swallow them.
pub(crate) struct Proxy {
    pub(crate) address: SocketAddr,
    pub(crate) target: SocketAddr,
    flows: Arc<Flows>,
    _task: JoinSet<()>,
}

#[derive(Default)]
struct Flows {
    is_black: AtomicBool,
    /// Bytes that did not arrive.
    swallowed: AtomicU64,
    /// Bytes that the pool's side has sent.
    sent: AtomicU64,
}

impl Proxy {
    pub(crate) async fn start(target: SocketAddr) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let flows = Arc::new(Flows::default());
        let mut task = JoinSet::new();
        let shared = flows.clone();
        task.spawn(async move {
            let mut ways = JoinSet::new();
            loop {
                let (near, _) = listener.accept().await.unwrap();
                let Ok(far) = TcpStream::connect(target).await else {
                    continue;
                };
                let (near_read, near_write) = near.into_split();
                let (far_read, far_write) = far.into_split();
                ways.spawn(pass(near_read, far_write, shared.clone(), true));
                ways.spawn(pass(far_read, near_write, shared.clone(), false));
            }
        });
        Self {
            address,
            target,
            flows,
            _task: task,
        }
    }

    /// Swallows everything from now on, in both directions.
    pub(crate) fn go_black(&self) {
        self.flows.is_black.store(true, Ordering::SeqCst);
    }

    pub(crate) fn swallowed(&self) -> u64 {
        self.flows.swallowed.load(Ordering::SeqCst)
    }

    pub(crate) fn sent(&self) -> u64 {
        self.flows.sent.load(Ordering::SeqCst)
    }
}

async fn pass(mut from: OwnedReadHalf, mut to: OwnedWriteHalf, flows: Arc<Flows>, is_out: bool) {
    let mut buffer = vec![0; 16 * 1024];
    loop {
        let read = from.read(&mut buffer).await.unwrap_or(0);
        if flows.is_black.load(Ordering::SeqCst) {
            flows.swallowed.fetch_add(read as u64, Ordering::SeqCst);
            if read == 0 {
                // The other side must not see this end either.
                return std::future::pending().await;
            }
            continue;
        }
        if is_out {
            flows.sent.fetch_add(read as u64, Ordering::SeqCst);
        }
        if read == 0 || to.write_all(&buffer[..read]).await.is_err() {
            return;
        }
    }
}
