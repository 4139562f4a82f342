//! A wire to etcd that can be cut without a word.

use std::{
    sync::{
        Arc, Mutex,
        atomic::{AtomicU64, Ordering::Relaxed},
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

use crate::boot_time;

/// How a ping of HTTP/2 begins that is no answer to one: 8 bytes, type 6, no flags, stream 0.
const PING: [u8; 9] = [0, 0, 8, 6, 0, 0, 0, 0, 0];

const ALL_BUT: u64 = 1 << 63;

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
    /// Connections are ended, and new ones not served.
    cut: watch::Sender<bool>,
    /// Number of the one connection whose answers are thrown away, or, with `ALL_BUT`,
    /// of the only one whose answers are not.
    muted: AtomicU64,
    /// What the next bytes to etcd must hold for that direction to be held from there on.
    trigger: Mutex<Option<Vec<u8>>>,
    /// After so many pieces that were passed on to etcd, that direction is held.
    hold_up_after: AtomicU64,
    /// When bytes came for etcd, and over which connection.
    journal: Mutex<Vec<(Duration, u64)>>,
    /// Pieces that were passed on to etcd.
    sent: watch::Sender<u64>,
    /// In milliseconds.
    delay_down: AtomicU64,
    delayed: AtomicU64,
    swallowed: AtomicU64,
    held: AtomicU64,
    triggered: AtomicU64,
    ended: AtomicU64,
    refused: AtomicU64,
    connections: AtomicU64,
    open: AtomicU64,
    pings: AtomicU64,
}

impl Proxy {
    pub(crate) async fn start(target: u16) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a free port");
        let port = listener.local_addr().expect("bound").port();
        let state = Arc::new(State {
            up: watch::Sender::new(Way::Pass),
            down: watch::Sender::new(Way::Pass),
            cut: watch::Sender::new(false),
            muted: AtomicU64::new(0),
            trigger: Mutex::new(None),
            hold_up_after: AtomicU64::new(u64::MAX),
            journal: Mutex::new(Vec::new()),
            sent: watch::Sender::new(0),
            delay_down: AtomicU64::new(0),
            delayed: AtomicU64::new(0),
            swallowed: AtomicU64::new(0),
            held: AtomicU64::new(0),
            triggered: AtomicU64::new(0),
            ended: AtomicU64::new(0),
            refused: AtomicU64::new(0),
            connections: AtomicU64::new(0),
            open: AtomicU64::new(0),
            pings: AtomicU64::new(0),
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
        self.state.hold_up_after.store(u64::MAX, Relaxed);
        self.state.up.send_replace(way);
    }

    /// Sets the direction from etcd.
    pub(crate) fn set_down(&self, way: Way) {
        self.state.down.send_replace(way);
    }

    /// Ends every connection, and each new one at once, until it is set to false.
    pub(crate) fn cut(&self, is_cut: bool) {
        self.state.cut.send_replace(is_cut);
    }

    /// Holds what goes to etcd from the bytes on that contain these.
    pub(crate) fn hold_up_at(&self, bytes: &[u8]) {
        *self.state.trigger.lock().expect("no panic under it") = Some(bytes.to_vec());
    }

    /// Throws away what etcd answers over the connection of this number, the first is 1.
    pub(crate) fn mute(&self, connection: u64) {
        self.state.muted.store(connection, Relaxed);
    }

    /// Throws away what etcd answers over every connection but the one of this number.
    pub(crate) fn mute_all_but(&self, connection: u64) {
        self.state.muted.store(ALL_BUT | connection, Relaxed);
    }

    /// Holds the direction to etcd from when so many more pieces were passed on.
    pub(crate) fn hold_up_after(&self, pieces: u64) {
        let after = *self.state.sent.borrow() + pieces;
        self.state.hold_up_after.store(after, Relaxed);
    }

    /// Keeps back each answer of etcd for this long.
    pub(crate) fn delay_down(&self, delay: Duration) {
        let delay = u64::try_from(delay.as_millis()).expect("a short delay");
        self.state.delay_down.store(delay, Relaxed);
    }

    /// Returns when bytes came for etcd, and over which connection.
    pub(crate) fn journal(&self) -> Vec<(Duration, u64)> {
        let journal = self.state.journal.lock();
        journal.expect("no panic under it").clone()
    }

    /// Counts the pieces that were passed on to etcd.
    pub(crate) fn sent(&self) -> watch::Receiver<u64> {
        self.state.sent.subscribe()
    }

    /// Times that bytes were delayed.
    pub(crate) fn delayed(&self) -> u64 {
        self.state.delayed.load(Relaxed)
    }

    /// Bytes that were thrown away.
    pub(crate) fn swallowed(&self) -> u64 {
        self.state.swallowed.load(Relaxed)
    }

    /// Times that bytes were kept back.
    pub(crate) fn held(&self) -> u64 {
        self.state.held.load(Relaxed)
    }

    /// Times that the bytes to hold at came.
    pub(crate) fn triggered(&self) -> u64 {
        self.state.triggered.load(Relaxed)
    }

    /// Connections that were cut.
    pub(crate) fn ended(&self) -> u64 {
        self.state.ended.load(Relaxed)
    }

    /// Connections that etcd refused.
    pub(crate) fn refused(&self) -> u64 {
        self.state.refused.load(Relaxed)
    }

    /// Connections so far.
    pub(crate) fn connections(&self) -> u64 {
        self.state.connections.load(Relaxed)
    }

    /// Pings of HTTP/2 that were sent to etcd.
    pub(crate) fn pings(&self) -> u64 {
        self.state.pings.load(Relaxed)
    }

    /// Connections that are open.
    pub(crate) fn open(&self) -> u64 {
        self.state.open.load(Relaxed)
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
                let number = state.connections.fetch_add(1, Relaxed) + 1;
                links.spawn(serve(client, target, number, Arc::clone(&state)));
            }
            Some(_) = links.join_next() => {}
        }
    }
}

async fn serve(client: TcpStream, target: u16, number: u64, state: Arc<State>) {
    let mut cut = state.cut.subscribe();
    state.open.fetch_add(1, Relaxed);
    tokio::select! {
        biased;
        _ = cut.wait_for(|is_cut| *is_cut) => {
            state.ended.fetch_add(1, Relaxed);
        }
        () = forward(client, target, number, &state) => {}
    }
    state.open.fetch_sub(1, Relaxed);
}

async fn forward(client: TcpStream, target: u16, number: u64, state: &State) {
    let Ok(server) = TcpStream::connect(("127.0.0.1", target)).await else {
        state.refused.fetch_add(1, Relaxed);
        return;
    };
    let _ = (client.set_nodelay(true), server.set_nodelay(true));
    let (client_read, client_write) = client.into_split();
    let (server_read, server_write) = server.into_split();
    let (up, down) = (Direction::Up(number), Direction::Down(number));
    // The end of one direction ends both, as a broken connection does.
    tokio::select! {
        () = copy(client_read, server_write, state, up) => {}
        () = copy(server_read, client_write, state, down) => {}
    }
}

/// Which way bytes go, over the connection of this number.
#[derive(Clone, Copy)]
enum Direction {
    Up(u64),
    Down(u64),
}

async fn copy(from: OwnedReadHalf, to: OwnedWriteHalf, state: &State, direction: Direction) {
    let (taken, takes) = mpsc::channel(64);
    // The end of one half ends the other.
    tokio::select! {
        () = take(from, taken, state, direction) => {}
        () = pass(takes, to, state, direction) => {}
    }
}

/// Reads, and says when to pass on what it has read.
async fn take(
    mut from: OwnedReadHalf,
    taken: mpsc::Sender<(Instant, Vec<u8>)>,
    state: &State,
    direction: Direction,
) {
    let mut bytes = vec![0; 64 * 1024];
    loop {
        let Ok(count @ 1..) = from.read(&mut bytes).await else {
            return;
        };
        let delay = match direction {
            Direction::Up(_) => 0,
            Direction::Down(_) => state.delay_down.load(Relaxed),
        };
        if delay > 0 {
            state.delayed.fetch_add(1, Relaxed);
        }
        let due = Instant::now() + Duration::from_millis(delay);
        if taken.send((due, bytes[..count].to_vec())).await.is_err() {
            return;
        }
    }
}

async fn pass(
    mut takes: mpsc::Receiver<(Instant, Vec<u8>)>,
    mut to: OwnedWriteHalf,
    state: &State,
    direction: Direction,
) {
    let mut way = match direction {
        Direction::Up(_) => state.up.subscribe(),
        Direction::Down(_) => state.down.subscribe(),
    };
    while let Some((due, bytes)) = takes.recv().await {
        sleep_until(due).await;
        if let Direction::Up(number) = direction {
            state.notice(&bytes, number);
        }
        let mut now = *way.borrow_and_update();
        if now == Way::Hold {
            state.held.fetch_add(1, Relaxed);
            let passes = way.wait_for(|way| *way != Way::Hold).await;
            now = passes.map_or(Way::Swallow, |way| *way);
        }
        if now == Way::Swallow || state.is_muted(direction) {
            let count = bytes.len() as u64;
            state.swallowed.fetch_add(count, Relaxed);
            continue;
        }
        if to.write_all(&bytes).await.is_err() {
            return;
        }
        if matches!(direction, Direction::Up(_)) {
            state.sent.send_modify(|sent| *sent += 1);
        }
    }
}

impl State {
    /// Notes what goes to etcd, and begins to hold it where that was asked for.
    fn notice(&self, bytes: &[u8], number: u64) {
        let has = |wanted: &[u8]| bytes.windows(wanted.len()).any(|part| part == wanted);
        if has(&PING) {
            self.pings.fetch_add(1, Relaxed);
        }
        let journal = self.journal.lock();
        let mut journal = journal.expect("no panic under it");
        journal.push((boot_time(), number));
        let trigger = self.trigger.lock();
        let mut trigger = trigger.expect("no panic under it");
        let is_triggered = trigger.as_deref().is_some_and(has);
        if is_triggered {
            *trigger = None;
            self.triggered.fetch_add(1, Relaxed);
        }
        let is_counted = *self.sent.borrow() >= self.hold_up_after.load(Relaxed);
        if is_counted {
            self.hold_up_after.store(u64::MAX, Relaxed);
        }
        if is_triggered || is_counted {
            self.up.send_replace(Way::Hold);
        }
    }

    fn is_muted(&self, direction: Direction) -> bool {
        let Direction::Down(number) = direction else {
            return false;
        };
        let muted = self.muted.load(Relaxed);
        if muted & ALL_BUT == 0 {
            number == muted
        } else {
            number != muted & !ALL_BUT
        }
    }
}
