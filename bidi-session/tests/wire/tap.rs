//! A relay that keeps what passes, can hold it back, and can cut it at any byte.

use std::net::SocketAddr;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::tcp::{OwnedReadHalf, OwnedWriteHalf};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::watch;
use tokio::task::JoinSet;

/// Whose bytes they are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Side {
    Controller,
    Worker,
}

/// Relays connections to one target; ends them on drop.
pub(crate) struct Tap {
    pub(crate) address: SocketAddr,
    shared: Arc<Shared>,
    _task: JoinSet<()>,
}

/// Connections that are held back; released on drop too.
pub(crate) struct Held(watch::Sender<bool>);

struct Shared {
    records: Mutex<Vec<(Side, Vec<u8>)>>,
    // What new connections wait for before the controller's bytes go on.
    hold: Mutex<Option<watch::Receiver<bool>>>,
    // After so many bytes of a side new connections are cut.
    cut: Mutex<Option<(Side, usize)>>,
    connections: AtomicU32,
    cuts: AtomicU32,
}

#[derive(Clone)]
struct Rules {
    hold: Option<watch::Receiver<bool>>,
    cut: Option<(Side, usize)>,
}

// ===== impl Tap =====

impl Tap {
    pub(crate) async fn start(target: SocketAddr) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a free port");
        let address = listener.local_addr().expect("an address");
        let shared = Arc::new(Shared {
            records: Mutex::default(),
            hold: Mutex::default(),
            cut: Mutex::default(),
            connections: AtomicU32::new(0),
            cuts: AtomicU32::new(0),
        });
        let mut task = JoinSet::new();
        task.spawn(relay(listener, target, shared.clone()));
        Self {
            address,
            shared,
            _task: task,
        }
    }

    /// Returns all that has passed since the last call.
    pub(crate) fn take(&self) -> Vec<(Side, Vec<u8>)> {
        std::mem::take(&mut lock(&self.shared.records))
    }

    /// Returns how many bytes of a side have passed since they were taken last.
    pub(crate) fn passed(&self, side: Side) -> usize {
        let records = lock(&self.shared.records);
        let of_side = records.iter().filter(|record| record.0 == side);
        of_side.map(|record| record.1.len()).sum()
    }

    /// Holds back the controller's bytes on connections from now on.
    pub(crate) fn hold(&self) -> Held {
        let (sender, receiver) = watch::channel(true);
        *lock(&self.shared.hold) = Some(receiver);
        Held(sender)
    }

    /// Lets connections from now on pass; those held stay so.
    pub(crate) fn pass(&self) {
        *lock(&self.shared.hold) = None;
        *lock(&self.shared.cut) = None;
    }

    /// Cuts connections from now on after so many bytes of a side.
    pub(crate) fn cut_after(&self, side: Side, bytes: usize) {
        *lock(&self.shared.cut) = Some((side, bytes));
    }

    pub(crate) fn connections(&self) -> u32 {
        self.shared.connections.load(Ordering::SeqCst)
    }

    pub(crate) fn cuts(&self) -> u32 {
        self.shared.cuts.load(Ordering::SeqCst)
    }
}

// ===== impl Held =====

impl Held {
    pub(crate) fn release(self) {
        drop(self.0);
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

async fn relay(listener: TcpListener, target: SocketAddr, shared: Arc<Shared>) {
    let mut connections = JoinSet::new();
    while let Ok((near, _)) = listener.accept().await {
        shared.connections.fetch_add(1, Ordering::SeqCst);
        let rules = Rules {
            hold: lock(&shared.hold).clone(),
            cut: *lock(&shared.cut),
        };
        connections.spawn(connection(near, target, rules, shared.clone()));
    }
}

async fn connection(near: TcpStream, target: SocketAddr, rules: Rules, shared: Arc<Shared>) {
    let Ok(far) = TcpStream::connect(target).await else {
        return;
    };
    let _ = (near.set_nodelay(true), far.set_nodelay(true));
    let (near_read, near_write) = near.into_split();
    let (far_read, far_write) = far.into_split();
    let is_held = rules.hold.is_some();
    let there = copy(
        Side::Controller,
        near_read,
        far_write,
        rules.clone(),
        &shared,
    );
    let back = copy(Side::Worker, far_read, near_write, rules, &shared);
    if is_held {
        // What is held outlives the controller's own end.
        tokio::join!(there, back);
    } else {
        // The first end of either side closes both.
        tokio::select! {
            () = there => {}
            () = back => {}
        }
    }
}

async fn copy(
    side: Side,
    mut from: OwnedReadHalf,
    mut to: OwnedWriteHalf,
    rules: Rules,
    shared: &Shared,
) {
    let mut room = match rules.cut {
        Some((cut, bytes)) if cut == side => bytes,
        _ => usize::MAX,
    };
    let mut buffer = [0; 16 * 1024];
    while room > 0 {
        let Ok(read @ 1..) = from.read(&mut buffer).await else {
            break;
        };
        if let (Side::Controller, Some(mut hold)) = (side, rules.hold.clone()) {
            // An error is the release.
            let _ = hold.wait_for(|is_held| !is_held).await;
        }
        let read = read.min(room);
        room -= read;
        lock(&shared.records).push((side, buffer[..read].to_vec()));
        if to.write_all(&buffer[..read]).await.is_err() {
            break;
        }
    }
    if room == 0 {
        shared.cuts.fetch_add(1, Ordering::SeqCst);
    } else if rules.hold.is_some() {
        // The far end must act on what was held, not on its end.
        std::future::pending::<()>().await;
    }
}
