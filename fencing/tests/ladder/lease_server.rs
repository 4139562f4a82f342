//! A store with one lease, and what lies between it and its holder.

use std::io::{self, Read, Write};
use std::net::{Ipv4Addr, SocketAddr, TcpListener, TcpStream};
use std::sync::{Arc, Condvar, Mutex, MutexGuard};
use std::thread;
use std::time::Duration;

use fencing::{boot_time, deadline};

/// What happens to a request.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Mode {
    Pass,
    /// It never reaches the store.
    BlackHole,
    /// The store does it; the answer is held until the mode changes.
    HoldAnswer,
}

/// The parent's end. A request is a token of 8 bytes, its answer the time to live in
/// milliseconds, of 8 bytes.
pub(crate) struct LeaseServer {
    shared: Arc<Shared>,
    address: SocketAddr,
}

struct Shared {
    ttl: Duration,
    state: Mutex<State>,
    changed: Condvar,
}

struct State {
    mode: Mode,
    expires_at: Duration,
    /// Requests that the store has done, swallowed ones, answers that were held.
    counts: Counts,
}

#[derive(Clone, Copy, Default)]
pub(crate) struct Counts {
    pub(crate) renewed: u64,
    pub(crate) swallowed: u64,
    pub(crate) held: u64,
}

/// The holder's end.
pub(crate) struct Lessee(TcpStream);

// ===== impl LeaseServer =====

impl LeaseServer {
    pub(crate) fn start(ttl: Duration) -> Self {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
        let address = listener.local_addr().unwrap();
        let shared = Arc::new(Shared {
            ttl,
            state: Mutex::new(State {
                mode: Mode::Pass,
                expires_at: Duration::ZERO,
                counts: Counts::default(),
            }),
            changed: Condvar::new(),
        });
        let server = Arc::clone(&shared);
        // One holder; the thread ends with its connection.
        thread::spawn(move || {
            let (stream, _) = listener.accept().unwrap();
            // The holder's end is the end of it.
            let _ = server.serve(stream);
        });
        Self { shared, address }
    }

    pub(crate) fn address(&self) -> String {
        self.address.to_string()
    }

    pub(crate) fn set(&self, mode: Mode) {
        self.shared.lock().mode = mode;
        self.shared.changed.notify_all();
    }

    pub(crate) fn counts(&self) -> Counts {
        self.shared.lock().counts
    }

    /// Waits until the counts are as wanted.
    pub(crate) fn wait_for(&self, wanted: impl Fn(Counts) -> bool) -> Counts {
        let limit = Duration::from_secs(60);
        let state = self.shared.lock();
        let (state, waited) = self
            .shared
            .changed
            .wait_timeout_while(state, limit, |state| !wanted(state.counts))
            .unwrap();
        assert!(!waited.timed_out(), "the holder does not renew");
        state.counts
    }

    /// Waits until somebody else may have the lease.
    pub(crate) fn wait_for_expiry(&self) {
        loop {
            let left = self.shared.lock().expires_at.saturating_sub(boot_time());
            if left.is_zero() {
                return;
            }
            thread::sleep(left);
        }
    }
}

// ===== impl Shared =====

impl Shared {
    fn serve(&self, mut stream: TcpStream) -> io::Result<()> {
        stream.set_nodelay(true)?;
        loop {
            stream.read_exact(&mut [0; 8])?;
            let mut state = self.lock();
            if state.mode == Mode::BlackHole {
                state.counts.swallowed += 1;
                self.changed.notify_all();
                continue;
            }
            state.counts.renewed += 1;
            state.counts.held += u64::from(state.mode == Mode::HoldAnswer);
            state.expires_at = boot_time() + self.ttl;
            self.changed.notify_all();
            let held = |state: &mut State| state.mode == Mode::HoldAnswer;
            drop(self.changed.wait_while(state, held).unwrap());
            let ttl = u64::try_from(self.ttl.as_millis()).unwrap();
            stream.write_all(&ttl.to_le_bytes())?;
        }
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap()
    }
}

// ===== impl Lessee =====

impl Lessee {
    pub(crate) fn connect(address: &str, timeout: Duration) -> Self {
        let stream = TcpStream::connect(address).unwrap();
        stream.set_nodelay(true).unwrap();
        stream.set_read_timeout(Some(timeout)).unwrap();
        Self(stream)
    }

    /// Renews and returns the deadline: counted from the sending, less the clock margin.
    pub(crate) fn renew(&mut self, token: u64) -> io::Result<Duration> {
        let sent = boot_time();
        self.0.write_all(&token.to_le_bytes())?;
        let mut ttl = [0; 8];
        self.0.read_exact(&mut ttl)?;
        let ttl = Duration::from_millis(u64::from_le_bytes(ttl));
        Ok(deadline(sent, ttl))
    }
}
