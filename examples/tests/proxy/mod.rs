//! A wire between a leader and a worker that a test holds or cuts.

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::watch;
use tokio::task::JoinSet;

/// What the wire does with bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Mode {
    Pass,
    /// Keeps what goes to the worker, for later.
    Hold,
    /// Takes everything in both directions, and no new connection: nobody hears of an end.
    Swallow,
}

/// A proxy before one address; it ends when it is dropped.
pub(crate) struct Proxy {
    pub(crate) address: SocketAddr,
    mode: watch::Sender<Mode>,
    kept: Arc<AtomicU64>,
    _tasks: JoinSet<()>,
}

impl Proxy {
    pub(crate) async fn start(upstream: SocketAddr) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let (mode, seen) = watch::channel(Mode::Pass);
        let kept = Arc::new(AtomicU64::new(0));
        let mut tasks = JoinSet::new();
        tasks.spawn(accept(listener, upstream, seen, Arc::clone(&kept)));
        Self {
            address,
            mode,
            kept,
            _tasks: tasks,
        }
    }

    pub(crate) fn set(&self, mode: Mode) {
        self.mode.send_replace(mode);
    }

    /// How many bytes were held or swallowed.
    pub(crate) fn kept(&self) -> u64 {
        self.kept.load(Relaxed)
    }
}

async fn accept(
    listener: TcpListener,
    upstream: SocketAddr,
    mode: watch::Receiver<Mode>,
    kept: Arc<AtomicU64>,
) {
    let mut cut = mode.clone();
    let mut listener = Some(listener);
    let mut pumps = JoinSet::new();
    loop {
        let accepted = async {
            match &listener {
                Some(listener) => listener.accept().await,
                None => std::future::pending().await,
            }
        };
        let is_cut = async {
            let cut = cut.wait_for(|mode| *mode == Mode::Swallow).await;
            cut.is_ok()
        };
        tokio::select! {
            true = is_cut, if listener.is_some() => {
                listener = None;
            }
            accepted = accepted => {
                let (near, _) = accepted.unwrap();
                let Ok(far) = TcpStream::connect(upstream).await else { continue };
                for stream in [&near, &far] {
                    stream.set_nodelay(true).unwrap();
                }
                let ((near_in, near_out), (far_in, far_out)) =
                    (near.into_split(), far.into_split());
                let wire = || (mode.clone(), Arc::clone(&kept));
                pumps.spawn(pump(near_in, far_out, wire(), true));
                pumps.spawn(pump(far_in, near_out, wire(), false));
            }
        }
    }
}

async fn pump(
    mut from: impl AsyncRead + Unpin,
    mut to: impl AsyncWrite + Unpin,
    (mut mode, kept): (watch::Receiver<Mode>, Arc<AtomicU64>),
    is_held: bool,
) {
    let mut buffer = vec![0; 64 * 1024];
    loop {
        let len = from.read(&mut buffer).await.unwrap_or(0);
        let now = *mode.borrow_and_update();
        if now == Mode::Swallow || (now == Mode::Hold && is_held) {
            kept.fetch_add(len as u64, Relaxed);
        }
        if is_held {
            let _ = mode.wait_for(|mode| *mode != Mode::Hold).await;
        }
        if *mode.borrow() == Mode::Swallow {
            if len == 0 {
                // Neither side hears that the other has ended.
                std::future::pending::<()>().await;
            }
            continue;
        }
        if len == 0 || to.write_all(&buffer[..len]).await.is_err() {
            let _ = to.shutdown().await;
            return;
        }
    }
}
