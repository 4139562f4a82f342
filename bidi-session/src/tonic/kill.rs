//! Ends a connection from outside, whatever is buffered on either side.
//!
//! Dropping a stream's handles is not enough: a full flow-control window hides it
//! from the peer. A cut connection is seen by both sides at once.

use std::fmt;
use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Context, Poll, Waker};

use futures_util::task::AtomicWaker;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

/// Ends the connection that it belongs to; clones share it.
#[derive(Clone)]
pub(super) struct KillSwitch {
    shared: Arc<Shared>,
}

/// Pulls the switch when it is dropped.
pub(super) struct KillOnDrop(KillSwitch);

/// An I/O that fails as soon as its switch is pulled.
pub(super) struct Killable<T> {
    io: T,
    shared: Arc<Shared>,
    // Who was told to the switch for either direction. It forgets them only when it is
    // pulled, so that they need not be told again.
    reader: Option<Waker>,
    writer: Option<Waker>,
}

#[derive(Default)]
struct Shared {
    is_dead: AtomicBool,
    reader: AtomicWaker,
    writer: AtomicWaker,
}

// ===== impl KillSwitch =====

impl KillSwitch {
    pub(super) fn new() -> Self {
        Self {
            shared: Arc::default(),
        }
    }

    pub(super) fn kill(&self) {
        self.shared.is_dead.store(true, Ordering::Release);
        self.shared.reader.wake();
        self.shared.writer.wake();
    }

    /// Puts an I/O under this switch.
    pub(super) fn guard<T>(&self, io: T) -> Killable<T> {
        Killable {
            io,
            shared: self.shared.clone(),
            reader: None,
            writer: None,
        }
    }

    pub(super) fn kill_on_drop(&self) -> KillOnDrop {
        KillOnDrop(self.clone())
    }
}

impl fmt::Debug for KillSwitch {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("KillSwitch")
            .field("is_dead", &self.shared.is_dead)
            .finish()
    }
}

// ===== impl KillOnDrop =====

impl Drop for KillOnDrop {
    fn drop(&mut self) {
        self.0.kill();
    }
}

// ===== impl Killable =====

impl Shared {
    /// Fails once the switch is pulled.
    fn check(&self) -> io::Result<()> {
        if self.is_dead.load(Ordering::Acquire) {
            return Err(io::Error::new(
                io::ErrorKind::ConnectionAborted,
                "the session was ended on this side",
            ));
        }
        Ok(())
    }

    /// Lets `waker` know who waits, who was `told` to it before or not.
    fn listen(
        &self,
        waker: &AtomicWaker,
        told: &mut Option<Waker>,
        cx: &Context<'_>,
    ) -> io::Result<()> {
        if !told.as_ref().is_some_and(|told| told.will_wake(cx.waker())) {
            waker.register(cx.waker());
            *told = Some(cx.waker().clone());
        }
        // Looked at after that, so that a pull in between is seen or wakes the task.
        self.check()
    }
}

impl<T> Killable<T> {
    fn read<R>(
        &mut self,
        cx: &mut Context<'_>,
        read: impl FnOnce(&mut T, &mut Context<'_>) -> Poll<io::Result<R>>,
    ) -> Poll<io::Result<R>> {
        self.shared.check()?;
        let done = read(&mut self.io, cx);
        if done.is_pending() {
            self.shared
                .listen(&self.shared.reader, &mut self.reader, cx)?;
        }
        done
    }

    fn write<R>(
        &mut self,
        cx: &mut Context<'_>,
        write: impl FnOnce(&mut T, &mut Context<'_>) -> Poll<io::Result<R>>,
    ) -> Poll<io::Result<R>> {
        self.shared.check()?;
        let done = write(&mut self.io, cx);
        if done.is_pending() {
            self.shared
                .listen(&self.shared.writer, &mut self.writer, cx)?;
        }
        done
    }
}

impl<T: AsyncRead + Unpin> AsyncRead for Killable<T> {
    fn poll_read(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let this = self.get_mut();
        this.read(cx, |io, cx| Pin::new(io).poll_read(cx, buffer))
    }
}

impl<T: AsyncWrite + Unpin> AsyncWrite for Killable<T> {
    fn poll_write(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        let this = self.get_mut();
        this.write(cx, |io, cx| Pin::new(io).poll_write(cx, bytes))
    }

    fn poll_write_vectored(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        slices: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let this = self.get_mut();
        this.write(cx, |io, cx| Pin::new(io).poll_write_vectored(cx, slices))
    }

    fn is_write_vectored(&self) -> bool {
        self.io.is_write_vectored()
    }

    fn poll_flush(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        let this = self.get_mut();
        this.write(cx, |io, cx| Pin::new(io).poll_flush(cx))
    }

    fn poll_shutdown(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        let this = self.get_mut();
        this.write(cx, |io, cx| Pin::new(io).poll_shutdown(cx))
    }
}

#[cfg(test)]
mod tests {
    use futures_util::FutureExt;
    use tokio::io::{AsyncReadExt, AsyncWriteExt, duplex};

    use super::*;

    async fn soon<F: Future>(what: F) -> F::Output {
        let in_time = tokio::time::timeout(std::time::Duration::from_secs(5), what).await;
        in_time.expect("it never came")
    }

    #[tokio::test]
    async fn a_pulled_switch_fails_a_waiting_read_and_a_waiting_write() {
        let (near, mut far) = duplex(4);
        let switch = KillSwitch::new();
        let (mut reader, mut writer) = tokio::io::split(switch.guard(near));
        writer.write_all(b"1234").await.unwrap();
        let read = tokio::spawn(async move { reader.read_u8().await });
        let write = tokio::spawn(async move { writer.write_all(b"5").await });
        tokio::task::yield_now().await;
        assert!(!read.is_finished() && !write.is_finished());
        switch.kill();
        let aborted = io::ErrorKind::ConnectionAborted;
        for failed in [
            soon(read).await.unwrap().map(drop),
            soon(write).await.unwrap(),
        ] {
            assert_eq!(failed.unwrap_err().kind(), aborted);
        }
        let mut received = Vec::new();
        far.read_to_end(&mut received).await.unwrap();
        assert_eq!(received, b"1234");
    }

    #[tokio::test]
    async fn a_pulled_switch_wakes_whoever_waits_last() {
        let (near, _far) = duplex(4);
        let switch = KillSwitch::new();
        let mut io = switch.guard(near);
        // One task waits, and another one goes on.
        assert!(io.read_u8().now_or_never().is_none());
        let read = tokio::spawn(async move { io.read_u8().await });
        tokio::task::yield_now().await;
        assert!(!read.is_finished());
        switch.kill();
        let error = soon(read).await.unwrap().unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::ConnectionAborted);
    }

    #[tokio::test]
    async fn a_dropped_guard_pulls_the_switch() {
        let (near, mut far) = duplex(4);
        let switch = KillSwitch::new();
        let mut io = switch.guard(near);
        let guard = switch.kill_on_drop();
        far.write_u8(1).await.unwrap();
        assert_eq!(io.read_u8().await.unwrap(), 1);
        drop(guard);
        assert!(soon(io.read_u8()).await.is_err());
    }
}
