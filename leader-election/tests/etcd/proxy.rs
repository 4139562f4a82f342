//! A wire to etcd that can be cut without a word.

use std::{
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    time::Duration,
};

use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::{
        TcpListener, TcpStream,
        tcp::{OwnedReadHalf, OwnedWriteHalf},
    },
    sync::{mpsc, watch},
    task::{JoinHandle, JoinSet},
    time::{Instant, sleep_until},
};

/// What happens to the bytes of one direction.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Way {
    Pass,
    /// Read and kept until the way passes again.
    Hold,
    /// Read and thrown away.
    Swallow,
}

/// Forwards connections to etcd; ends them on drop.
pub(crate) struct Proxy {
    port: u16,
    state: Arc<State>,
    task: JoinHandle<()>,
}

struct State {
    up: watch::Sender<Way>,
    down: watch::Sender<Way>,
    swallowed: AtomicU64,
    held: AtomicU64,
    connections: AtomicU64,
    /// In milliseconds.
    delay_down: AtomicU64,
    delayed: AtomicU64,
    /// Pieces that were passed on to etcd.
    sent: watch::Sender<u64>,
    hold_up_after: AtomicU64,
    /// One bit for each connection whose answers are swallowed.
    muted: AtomicU64,
}

impl Proxy {
    pub(crate) async fn start(target: u16) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a free port");
        let port = listener.local_addr().expect("bound").port();
        let state = Arc::new(State {
            up: watch::Sender::new(Way::Pass),
            down: watch::Sender::new(Way::Pass),
            swallowed: AtomicU64::new(0),
            held: AtomicU64::new(0),
            connections: AtomicU64::new(0),
            delay_down: AtomicU64::new(0),
            delayed: AtomicU64::new(0),
            sent: watch::Sender::new(0),
            hold_up_after: AtomicU64::new(u64::MAX),
            muted: AtomicU64::new(0),
        });
        let task = tokio::spawn(accept(listener, target, Arc::clone(&state)));
        Self { port, state, task }
    }

    pub(crate) fn endpoint(&self) -> String {
        format!("http://127.0.0.1:{}", self.port)
    }

    /// Sets both directions.
    pub(crate) fn set(&self, way: Way) {
        self.set_up(way);
        self.set_down(way);
    }

    /// Sets the direction to etcd.
    pub(crate) fn set_up(&self, way: Way) {
        self.state.hold_up_after.store(u64::MAX, Ordering::Relaxed);
        self.state.up.send_replace(way);
    }

    /// Sets the direction from etcd.
    pub(crate) fn set_down(&self, way: Way) {
        self.state.down.send_replace(way);
    }

    /// Keeps back each answer of etcd for this long.
    pub(crate) fn delay_down(&self, delay: Duration) {
        let delay = u64::try_from(delay.as_millis()).expect("a short delay");
        self.state.delay_down.store(delay, Ordering::Relaxed);
    }

    /// Times that bytes were delayed.
    pub(crate) fn delayed(&self) -> u64 {
        self.state.delayed.load(Ordering::Relaxed)
    }

    /// Counts the pieces that were passed on to etcd.
    pub(crate) fn sent(&self) -> watch::Receiver<u64> {
        self.state.sent.subscribe()
    }

    /// Holds the direction to etcd from when so many more pieces were passed on.
    pub(crate) fn hold_up_after(&self, pieces: u64) {
        let after = *self.state.sent.borrow() + pieces;
        self.state.hold_up_after.store(after, Ordering::Relaxed);
    }

    /// Swallows the answers on those connections alone, of the first 64, whose bit is
    /// set; the first has the lowest.
    pub(crate) fn mute(&self, connections: u64) {
        self.state.muted.store(connections, Ordering::Relaxed);
    }

    /// Bytes that were thrown away.
    pub(crate) fn swallowed(&self) -> u64 {
        self.state.swallowed.load(Ordering::Relaxed)
    }

    /// Times that bytes were kept back.
    pub(crate) fn held(&self) -> u64 {
        self.state.held.load(Ordering::Relaxed)
    }

    pub(crate) fn connections(&self) -> u64 {
        self.state.connections.load(Ordering::Relaxed)
    }
}

impl Drop for Proxy {
    fn drop(&mut self) {
        self.task.abort();
    }
}

async fn accept(listener: TcpListener, target: u16, state: Arc<State>) {
    let mut links = JoinSet::new();
    loop {
        tokio::select! {
            accepted = listener.accept() => {
                let Ok((client, _)) = accepted else { return };
                let number = state.connections.fetch_add(1, Ordering::Relaxed);
                links.spawn(forward(client, target, number, Arc::clone(&state)));
            }
            Some(_) = links.join_next() => {}
        }
    }
}

async fn forward(client: TcpStream, target: u16, number: u64, state: Arc<State>) {
    let Ok(server) = TcpStream::connect(("127.0.0.1", target)).await else {
        return;
    };
    let _ = (client.set_nodelay(true), server.set_nodelay(true));
    let (client_read, client_write) = client.into_split();
    let (server_read, server_write) = server.into_split();
    // The end of one direction ends both, as a broken connection does.
    tokio::select! {
        () = copy(client_read, server_write, &state, None) => {}
        () = copy(server_read, client_write, &state, Some(number)) => {}
    }
}

/// Copies to etcd, or the answers on the connection of this number.
async fn copy(from: OwnedReadHalf, to: OwnedWriteHalf, state: &State, answers: Option<u64>) {
    let (passed, passes) = mpsc::channel(64);
    // The end of one half ends the other.
    tokio::select! {
        () = take(from, passed, state, answers.is_none()) => {}
        () = pass(passes, to, state, answers) => {}
    }
}

/// Reads, and says when to pass on what it has read.
async fn take(
    mut from: OwnedReadHalf,
    passed: mpsc::Sender<(Instant, Vec<u8>)>,
    state: &State,
    is_up: bool,
) {
    let mut bytes = vec![0; 64 * 1024];
    loop {
        let Ok(count @ 1..) = from.read(&mut bytes).await else {
            return;
        };
        let delay = match is_up {
            true => 0,
            false => state.delay_down.load(Ordering::Relaxed),
        };
        if delay > 0 {
            state.delayed.fetch_add(1, Ordering::Relaxed);
        }
        let due = Instant::now() + Duration::from_millis(delay);
        if passed.send((due, bytes[..count].to_vec())).await.is_err() {
            return;
        }
    }
}

async fn pass(
    mut passes: mpsc::Receiver<(Instant, Vec<u8>)>,
    mut to: OwnedWriteHalf,
    state: &State,
    answers: Option<u64>,
) {
    let is_up = answers.is_none();
    let way = if is_up { &state.up } else { &state.down };
    let mut way = way.subscribe();
    while let Some((due, bytes)) = passes.recv().await {
        sleep_until(due).await;
        let after = &state.hold_up_after;
        if is_up && *state.sent.borrow() >= after.load(Ordering::Relaxed) {
            after.store(u64::MAX, Ordering::Relaxed);
            state.up.send_replace(Way::Hold);
        }
        let mut now = *way.borrow_and_update();
        if now == Way::Hold {
            state.held.fetch_add(1, Ordering::Relaxed);
            let passes = way.wait_for(|way| *way != Way::Hold).await;
            now = passes.map_or(Way::Swallow, |way| *way);
        }
        let muted = state.muted.load(Ordering::Relaxed);
        if answers.is_some_and(|number| muted >> number.min(63) & 1 == 1) {
            now = Way::Swallow;
        }
        match now {
            Way::Swallow => {
                let count = bytes.len() as u64;
                state.swallowed.fetch_add(count, Ordering::Relaxed);
            }
            _ => {
                if to.write_all(&bytes).await.is_err() {
                    return;
                }
                if is_up {
                    state.sent.send_modify(|sent| *sent += 1);
                }
            }
        }
    }
}
