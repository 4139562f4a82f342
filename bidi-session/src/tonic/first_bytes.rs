//! Tells apart by its first bytes what is no HTTP/2, and hears a peer's last words.
//!
//! What a user gets wrong is a scheme or a port, and what HTTP/2 makes of it is a frame of
//! a strange size. Built without a TLS feature, `tonic` even speaks plain HTTP/2 to an
//! `https` endpoint; here that fails before its first byte.

use std::io;
use std::pin::Pin;
use std::task::{Context, Poll};

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

/// How an HTTP/2 connection begins, and no TLS connection does.
const PLAIN: &[u8] = b"PRI";
const NO_TLS: &str = "an https endpoint needs TLS: turn on the feature tls-ring or tls-aws-lc \
                      of tonic, and give the endpoint a tls_config";

/// How a TLS server complains of what is no TLS.
const TLS_ALERT: &[u8] = &[0x15, 3];
const IS_TLS: &str = "the server speaks TLS: give the endpoint an https address and a tls_config";

const HTTP_1: &[u8] = b"HTTP/";
const IS_HTTP_1: &str = "the server answers HTTP/1, and gRPC needs HTTP/2: is it the right port?";

/// An I/O whose errors say what is wrong with the endpoint.
pub(super) struct Telling<T> {
    io: T,
    is_secret: bool,
    has_written: bool,
    has_read: bool,
    // The peer takes no bytes any more; what it said before is still to be read.
    broken: Option<io::Error>,
}

// ===== impl Telling =====

impl<T> Telling<T> {
    /// Wraps a connection to an endpoint, `https` if it is secret.
    pub(super) fn new(io: T, is_secret: bool) -> Self {
        Self {
            io,
            is_secret,
            has_written: false,
            has_read: false,
            broken: None,
        }
    }

    fn check_written(&mut self, bytes: &[u8]) -> io::Result<()> {
        if self.has_written {
            return Ok(());
        }
        if self.is_secret && bytes.starts_with(PLAIN) {
            return Err(io::Error::other(NO_TLS));
        }
        self.has_written = !bytes.is_empty();
        Ok(())
    }

    fn check_read(&mut self, bytes: &[u8]) -> io::Result<()> {
        if std::mem::replace(&mut self.has_read, true) || self.is_secret {
            return Ok(());
        }
        let text = if bytes.starts_with(TLS_ALERT) {
            IS_TLS
        } else if bytes.starts_with(HTTP_1) {
            IS_HTTP_1
        } else {
            return Ok(());
        };
        Err(io::Error::other(text))
    }

    /// Takes a write for done that a peer broke which may have said why: the reader comes
    /// to that, or to the end of the connection.
    fn outlive<W>(
        &mut self,
        written: Poll<io::Result<W>>,
        done: impl FnOnce() -> W,
    ) -> Poll<io::Result<W>> {
        match written {
            Poll::Ready(Err(error)) if is_broken(&error) => {
                self.broken = Some(error);
                Poll::Ready(Ok(done()))
            }
            written => written,
        }
    }
}

fn is_broken(error: &io::Error) -> bool {
    matches!(
        error.kind(),
        io::ErrorKind::BrokenPipe | io::ErrorKind::ConnectionReset
    )
}

impl<T: AsyncRead + Unpin> AsyncRead for Telling<T> {
    fn poll_read(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let this = self.get_mut();
        let before = buffer.filled().len();
        let has_room = buffer.remaining() > 0;
        let Poll::Ready(outcome) = Pin::new(&mut this.io).poll_read(cx, buffer) else {
            return Poll::Pending;
        };
        let read = &buffer.filled()[before..];
        let outcome = outcome.and_then(|()| match this.broken.take() {
            // The end says less than the error that came before it.
            Some(error) if has_room && read.is_empty() => Err(error),
            broken => {
                this.broken = broken;
                Ok(())
            }
        });
        outcome?;
        Poll::Ready(if read.is_empty() {
            Ok(())
        } else {
            this.check_read(read)
        })
    }
}

impl<T: AsyncWrite + Unpin> AsyncWrite for Telling<T> {
    fn poll_write(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        let this = self.get_mut();
        this.check_written(bytes)?;
        let written = Pin::new(&mut this.io).poll_write(cx, bytes);
        this.outlive(written, || bytes.len())
    }

    fn poll_write_vectored(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        slices: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let this = self.get_mut();
        let first = slices.iter().find(|slice| !slice.is_empty());
        this.check_written(first.map_or(&[], |slice| slice))?;
        let written = Pin::new(&mut this.io).poll_write_vectored(cx, slices);
        this.outlive(written, || slices.iter().map(|slice| slice.len()).sum())
    }

    fn is_write_vectored(&self) -> bool {
        self.io.is_write_vectored()
    }

    fn poll_flush(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        let this = self.get_mut();
        let flushed = Pin::new(&mut this.io).poll_flush(cx);
        this.outlive(flushed, || ())
    }

    fn poll_shutdown(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        let this = self.get_mut();
        let shut = Pin::new(&mut this.io).poll_shutdown(cx);
        this.outlive(shut, || ())
    }
}

#[cfg(test)]
mod tests {
    use std::future::{Ready, ready};

    use ::tonic::transport::{Endpoint, Uri};
    use hyper_util::rt::TokioIo;
    use tokio::io::{AsyncReadExt, AsyncWriteExt, DuplexStream, duplex};
    use tower_service::Service;

    use super::super::failure::describe;
    use super::*;

    /// Hands out one connection, as `tonic` without a TLS feature would use it.
    struct Once(Option<Telling<DuplexStream>>);

    impl Service<Uri> for Once {
        type Response = TokioIo<Telling<DuplexStream>>;
        type Error = io::Error;
        type Future = Ready<io::Result<Self::Response>>;

        fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<io::Result<()>> {
            Poll::Ready(Ok(()))
        }

        fn call(&mut self, _: Uri) -> Self::Future {
            let io = self.0.take().map(TokioIo::new);
            ready(io.ok_or_else(|| io::Error::other("a second connection")))
        }
    }

    #[tokio::test]
    async fn plain_http_to_an_https_endpoint_fails_before_its_first_byte() {
        let (near, mut far) = duplex(4096);
        let once = Once(Some(Telling::new(near, true)));
        let endpoint = Endpoint::from_static("http://w1");
        let error = endpoint.connect_with_connector(once).await.unwrap_err();
        assert!(
            describe(&error).contains("tls-ring"),
            "{}",
            describe(&error)
        );
        assert_eq!(
            far.read_u8().await.unwrap_err().kind(),
            io::ErrorKind::UnexpectedEof
        );
        let (near, mut far) = duplex(4096);
        let once = Once(Some(Telling::new(near, false)));
        endpoint.connect_with_connector(once).await.unwrap();
        assert_eq!(far.read_u8().await.unwrap(), b'P');
    }

    #[tokio::test]
    async fn whatever_follows_a_secret_beginning_passes() {
        let (near, mut far) = duplex(64);
        let mut near = Telling::new(near, true);
        near.write_all(b"").await.unwrap();
        near.write_all(&[0x16, 3, 1]).await.unwrap();
        near.write_all(PLAIN).await.unwrap();
        drop(near);
        let mut sent = Vec::new();
        far.read_to_end(&mut sent).await.unwrap();
        assert_eq!(sent, [&[0x16, 3, 1], PLAIN].concat());
    }

    #[tokio::test]
    async fn a_server_of_another_protocol_is_named() {
        for (said, told) in [(TLS_ALERT, IS_TLS), (HTTP_1, IS_HTTP_1)] {
            let (near, mut far) = duplex(64);
            far.write_all(said).await.unwrap();
            let error = Telling::new(near, false)
                .read(&mut [0; 8])
                .await
                .unwrap_err();
            assert_eq!(error.to_string(), told);
            let (near, mut far) = duplex(64);
            far.write_all(said).await.unwrap();
            // Under TLS both are for TLS to understand.
            assert_eq!(Telling::new(near, true).read_u8().await.unwrap(), said[0]);
        }
    }

    #[tokio::test]
    async fn what_a_peer_said_before_it_hung_up_is_heard_and_then_why_it_broke() {
        let (near, mut far) = duplex(64);
        far.write_all(b"why").await.unwrap();
        drop(far);
        let mut near = Telling::new(near, true);
        near.write_all(&[0; 1024]).await.unwrap();
        near.flush().await.unwrap();
        let mut said = Vec::new();
        let error = near.read_to_end(&mut said).await.unwrap_err();
        assert_eq!(said, b"why");
        assert_eq!(error.kind(), io::ErrorKind::BrokenPipe);
        assert_eq!(near.read(&mut [0]).await.unwrap(), 0);
    }
}
