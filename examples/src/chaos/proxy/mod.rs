//! The way to etcd: connections pass through here, and a commit can be held up or its
//! answer lost.
//!
//! A commit is told from other calls by its comparisons, which name the leader's key and
//! the head; no other call names both.

mod answers;

use std::io;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::tcp::{OwnedReadHalf, OwnedWriteHalf};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::watch;
use tokio::task::{JoinHandle, JoinSet};
use tokio::time::timeout;

use self::answers::Answers;
use crate::etcd::Keys;

/// Bytes read at once.
const BUFFER: usize = 64 * 1024;

/// The rest of a request that is held up comes within this time after its beginning.
const REST: Duration = Duration::from_millis(200);

/// How long etcd may take to answer a client that has gone.
const ANSWER: Duration = Duration::from_secs(5);

/// How often such an answer is looked for.
const LOOK_EVERY: Duration = Duration::from_millis(5);

/// What becomes of the next commit.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum Trap {
    /// It passes.
    #[default]
    Open,
    /// Once it is released it passes, and whatever etcd says on this connection is lost.
    LoseReply,
    /// Once it is released it passes, without what its client has sent since, and its
    /// connection ends.
    Hold,
}

/// A trap for the next commit, or for the next one of this leader.
#[derive(Debug, Default)]
struct Set {
    trap: Trap,
    key: Option<Vec<u8>>,
}

/// A running proxy; dropping it ends it with all connections.
#[derive(Debug)]
pub struct Proxy {
    shared: Arc<Shared>,
    accepting: JoinHandle<()>,
}

#[derive(Debug)]
struct Shared {
    marks: [Vec<u8>; 2],
    trap: Mutex<Set>,
    /// Commits that came here.
    commits: AtomicU64,
    /// Those of them that went into a trap.
    trapped: AtomicU64,
    /// Answers of etcd that were lost.
    lost: AtomicU64,
    /// Those of them to what was held up.
    answered: AtomicU64,
    /// Raised to release what is held up.
    released: watch::Sender<u64>,
}

// ===== impl Proxy =====

impl Proxy {
    /// Listens on `address`, and connects to `etcd` for each connection.
    ///
    /// # Errors
    ///
    /// Those of the listener.
    pub async fn start(address: &str, etcd: String, keys: &Keys) -> io::Result<Self> {
        let listener = TcpListener::bind(address).await?;
        let shared = Arc::new(Shared {
            marks: [keys.election() + "/", keys.head()].map(String::into_bytes),
            trap: Mutex::default(),
            commits: AtomicU64::new(0),
            trapped: AtomicU64::new(0),
            lost: AtomicU64::new(0),
            answered: AtomicU64::new(0),
            released: watch::channel(0).0,
        });
        let accepting = tokio::spawn(accept(listener, etcd, Arc::clone(&shared)));
        Ok(Self { shared, accepting })
    }

    /// Sets what becomes of the next commit; or, with a leader's key, of the next one that
    /// names it: one of another leader, sent before, may still come.
    pub fn set(&self, trap: Trap, key: Option<&[u8]>) {
        let key = key.map(<[u8]>::to_vec);
        *self.shared.trap() = Set { trap, key };
    }

    /// Releases what is held up.
    pub fn release(&self) {
        self.shared.released.send_modify(|number| *number += 1);
    }

    /// Returns how many commits came here, repeated ones too.
    #[must_use]
    pub fn commits(&self) -> u64 {
        self.shared.commits.load(Relaxed)
    }

    /// Returns how many commits went into a trap.
    #[must_use]
    pub fn trapped(&self) -> u64 {
        self.shared.trapped.load(Relaxed)
    }

    /// Returns how many answers of etcd were lost.
    #[must_use]
    pub fn lost(&self) -> u64 {
        self.shared.lost.load(Relaxed)
    }

    /// Returns how many answers etcd gave to what was held up.
    #[must_use]
    pub fn answered(&self) -> u64 {
        self.shared.answered.load(Relaxed)
    }
}

impl Drop for Proxy {
    fn drop(&mut self) {
        self.accepting.abort();
    }
}

// ===== impl Shared =====

impl Shared {
    fn trap(&self) -> MutexGuard<'_, Set> {
        self.trap.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Takes the trap, if one is set and this is a commit.
    fn trapped(&self, bytes: &[u8]) -> Trap {
        if !self.marks.iter().all(|mark| has(bytes, mark)) {
            return Trap::Open;
        }
        self.commits.fetch_add(1, Relaxed);
        let mut set = self.trap();
        if set.key.as_ref().is_some_and(|key| !has(bytes, key)) {
            return Trap::Open;
        }
        let Set { trap, .. } = std::mem::take(&mut *set);
        if trap != Trap::Open {
            self.trapped.fetch_add(1, Relaxed);
        }
        trap
    }

    /// Waits for what etcd says to a request that was held up; it is lost as well.
    async fn count_answers(&self, before: u64) {
        let wait = async {
            while self.lost.load(Relaxed) == before {
                tokio::time::sleep(LOOK_EVERY).await;
            }
        };
        if timeout(ANSWER, wait).await.is_ok() {
            let said = self.lost.load(Relaxed) - before;
            self.answered.fetch_add(said, Relaxed);
        }
    }
}

fn has(bytes: &[u8], mark: &[u8]) -> bool {
    bytes.windows(mark.len()).any(|window| window == mark)
}

async fn accept(listener: TcpListener, etcd: String, shared: Arc<Shared>) {
    let mut connections = JoinSet::new();
    loop {
        tokio::select! {
            accepted = listener.accept() => {
                let Ok((client, _)) = accepted else { continue };
                let (etcd, shared) = (etcd.clone(), Arc::clone(&shared));
                connections.spawn(async move {
                    // Its end is that of the connection, whatever ended it.
                    let _ = connect(client, &etcd, &shared).await;
                });
            }
            _ = connections.join_next(), if !connections.is_empty() => {}
        }
    }
}

async fn connect(client: TcpStream, etcd: &str, shared: &Shared) -> io::Result<()> {
    let server = TcpStream::connect(etcd).await?;
    client.set_nodelay(true)?;
    server.set_nodelay(true)?;
    let (client_reads, client_writes) = client.into_split();
    let (server_reads, server_writes) = server.into_split();
    let released = shared.released.subscribe();
    let (losing, loses) = watch::channel(false);
    let up = upward(client_reads, server_writes, shared, released, losing);
    let down = downward(server_reads, client_writes, shared, loses);
    tokio::try_join!(up, down).map(drop)
}

/// From the client to etcd.
async fn upward(
    mut client: OwnedReadHalf,
    mut server: OwnedWriteHalf,
    shared: &Shared,
    mut released: watch::Receiver<u64>,
    losing: watch::Sender<bool>,
) -> io::Result<()> {
    let mut buffer = vec![0; BUFFER];
    loop {
        let n = client.read(&mut buffer).await?;
        if n == 0 {
            if *losing.borrow() {
                // Its answer is still to come, and to be counted.
                tokio::time::sleep(ANSWER).await;
            }
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        // Before the trap says that it has caught one: a release after that is not missed.
        released.mark_unchanged();
        match shared.trapped(&buffer[..n]) {
            Trap::Open => server.write_all(&buffer[..n]).await?,
            Trap::LoseReply => {
                losing.send_replace(true);
                let _ = released.changed().await;
                server.write_all(&buffer[..n]).await?;
            }
            Trap::Hold => {
                losing.send_replace(true);
                let mut held = buffer[..n].to_vec();
                // What the client says later, that it gave up for one, is lost.
                while let Ok(Ok(n @ 1..)) = timeout(REST, client.read(&mut buffer)).await {
                    held.extend_from_slice(&buffer[..n]);
                }
                let _ = released.changed().await;
                let before = shared.lost.load(Relaxed);
                server.write_all(&held).await?;
                shared.count_answers(before).await;
                return Err(io::ErrorKind::ConnectionAborted.into());
            }
        }
    }
}

/// From etcd to the client.
async fn downward(
    mut server: OwnedReadHalf,
    mut client: OwnedWriteHalf,
    shared: &Shared,
    loses: watch::Receiver<bool>,
) -> io::Result<()> {
    let mut answers = Answers::default();
    let mut buffer = vec![0; BUFFER];
    loop {
        let n = server.read(&mut buffer).await?;
        if n == 0 {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        let ended = answers.take(&buffer[..n]);
        if *loses.borrow() {
            shared.lost.fetch_add(ended, Relaxed);
        } else {
            client.write_all(&buffer[..n]).await?;
        }
    }
}
