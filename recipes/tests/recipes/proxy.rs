//! A wire to a resource that is broken on purpose.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU16, AtomicU64, Ordering::SeqCst};

use recipes::conformance::Fault;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::tcp::{OwnedReadHalf, OwnedWriteHalf};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::watch;
use tokio::task::{JoinHandle, JoinSet};

/// Forwards connections to a port; ends them on drop.
pub(crate) struct Proxy {
    pub(crate) port: u16,
    state: Arc<State>,
    task: JoinHandle<()>,
}

struct State {
    target: Arc<AtomicU16>,
    fault: Fault,
    /// The fault begins with the bytes to the resource that contain these.
    trigger: &'static [u8],
    is_armed: AtomicBool,
    is_broken: AtomicBool,
    is_healed: watch::Sender<bool>,
    /// Replies thrown away, or requests held back.
    faults: AtomicU64,
}

// ===== impl Proxy =====

impl Proxy {
    pub(crate) async fn start(
        target: Arc<AtomicU16>,
        fault: Fault,
        trigger: &'static [u8],
    ) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let port = listener.local_addr().unwrap().port();
        let state = Arc::new(State {
            target,
            fault,
            trigger,
            is_armed: AtomicBool::new(false),
            is_broken: AtomicBool::new(false),
            is_healed: watch::Sender::new(false),
            faults: AtomicU64::new(0),
        });
        let task = tokio::spawn(accept(listener, Arc::clone(&state)));
        Self { port, state, task }
    }

    /// From here on the trigger is looked for.
    pub(crate) fn arm(&self) {
        self.state.is_armed.store(true, SeqCst);
    }

    pub(crate) fn faults(&self) -> u64 {
        self.state.faults.load(SeqCst)
    }

    pub(crate) fn heal(&self) {
        self.state.is_healed.send_replace(true);
    }
}

impl Drop for Proxy {
    fn drop(&mut self) {
        self.task.abort();
    }
}

async fn accept(listener: TcpListener, state: Arc<State>) {
    let mut links = JoinSet::new();
    loop {
        tokio::select! {
            accepted = listener.accept() => {
                let (client, _) = accepted.unwrap();
                links.spawn(forward(client, Arc::clone(&state)));
            }
            Some(_) = links.join_next() => {}
        }
    }
}

async fn forward(client: TcpStream, state: Arc<State>) {
    let port = state.target.load(SeqCst);
    let Ok(server) = TcpStream::connect(("127.0.0.1", port)).await else {
        return;
    };
    let _ = (client.set_nodelay(true), server.set_nodelay(true));
    let (from_client, to_client) = client.into_split();
    let (from_server, to_server) = server.into_split();
    tokio::select! {
        () = up(from_client, to_server, &state) => {}
        () = down(from_server, to_client, &state) => {}
    }
}

async fn up(mut from: OwnedReadHalf, mut to: OwnedWriteHalf, state: &State) {
    let mut bytes = vec![0; 64 * 1024];
    while let Ok(count @ 1..) = from.read(&mut bytes).await {
        let bytes = &bytes[..count];
        let mut windows = bytes.windows(state.trigger.len());
        if state.is_armed.load(SeqCst) && windows.any(|part| part == state.trigger) {
            state.is_broken.store(true, SeqCst);
        }
        if state.fault == Fault::Held && state.is_broken.load(SeqCst) {
            state.faults.fetch_add(1, SeqCst);
            let mut is_healed = state.is_healed.subscribe();
            let _ = is_healed.wait_for(|is_healed| *is_healed).await;
            state.is_armed.store(false, SeqCst);
            state.is_broken.store(false, SeqCst);
        }
        if to.write_all(bytes).await.is_err() {
            return;
        }
    }
}

async fn down(mut from: OwnedReadHalf, mut to: OwnedWriteHalf, state: &State) {
    let mut bytes = vec![0; 64 * 1024];
    while let Ok(count @ 1..) = from.read(&mut bytes).await {
        if state.fault == Fault::LostReply && state.is_broken.load(SeqCst) {
            state.faults.fetch_add(1, SeqCst);
            continue;
        }
        if to.write_all(&bytes[..count]).await.is_err() {
            return;
        }
    }
}
