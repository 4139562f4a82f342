//! The port of a proxy, which it keeps while nobody listens on it.

use std::future::poll_fn;
use std::io;
use std::net::{Ipv4Addr, SocketAddr};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll};
use std::time::Duration;

use tokio::net::{TcpListener, TcpSocket, TcpStream};
use tokio::sync::Notify;

/// Connections that wait to be accepted, at most.
const BACKLOG: u32 = 1024;

/// Pause after a failed accept: out of file descriptors, it would fail again at once.
const PAUSE: Duration = Duration::from_millis(10);

/// A port that can be shut and opened again.
pub(super) struct Door {
    // Bound and never listening: nobody else can get the port.
    port: TcpSocket,
    listener: Mutex<Option<TcpListener>>,
    opened: Notify,
}

// ===== impl Door =====

impl Door {
    pub(super) fn open() -> io::Result<Self> {
        let port = bind(SocketAddr::from((Ipv4Addr::LOCALHOST, 0)))?;
        let listener = listen(port.local_addr()?)?;
        Ok(Self {
            port,
            listener: Mutex::new(Some(listener)),
            opened: Notify::new(),
        })
    }

    pub(super) fn address(&self) -> SocketAddr {
        let address = self.port.local_addr();
        address.expect("a bound socket has an address")
    }

    pub(super) fn set_shut(&self, is_shut: bool) -> io::Result<()> {
        let mut listener = self.lock();
        if is_shut {
            *listener = None;
        } else if listener.is_none() {
            *listener = Some(listen(self.address())?);
        }
        drop(listener);
        self.opened.notify_waiters();
        Ok(())
    }

    /// Waits for a connection, however often the door is shut meanwhile.
    pub(super) async fn next(&self) -> TcpStream {
        loop {
            // Listens before it looks, so that an opening in between is seen.
            let opened = self.opened.notified();
            tokio::select! {
                accepted = poll_fn(|cx| self.poll_accept(cx)) => match accepted {
                    Ok(stream) => return stream,
                    Err(_) => tokio::time::sleep(PAUSE).await,
                },
                () = opened => {}
            }
        }
    }

    fn poll_accept(&self, cx: &mut Context<'_>) -> Poll<io::Result<TcpStream>> {
        match &*self.lock() {
            Some(listener) => listener.poll_accept(cx).map_ok(|(stream, _)| stream),
            None => Poll::Pending,
        }
    }

    fn lock(&self) -> MutexGuard<'_, Option<TcpListener>> {
        // No user code runs under the lock, so it is consistent even if poisoned.
        self.listener.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn bind(address: SocketAddr) -> io::Result<TcpSocket> {
    let socket = TcpSocket::new_v4()?;
    // Two sockets may share an address unless one listens when the other binds.
    socket.set_reuseaddr(true)?;
    socket.bind(address)?;
    Ok(socket)
}

fn listen(address: SocketAddr) -> io::Result<TcpListener> {
    bind(address)?.listen(BACKLOG)
}
