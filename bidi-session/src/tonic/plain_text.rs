//! Keeps plain text off a connection that was meant to be secret.
//!
//! Built without a TLS feature, `tonic` speaks plain HTTP/2 to an `https` endpoint.

use std::io;
use std::pin::Pin;
use std::task::{Context, Poll};

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

/// How an HTTP/2 connection begins, and no TLS connection does.
const PLAIN: &[u8] = b"PRI";

const TEXT: &str = "an https endpoint needs TLS: turn on the feature tls-ring or tls-aws-lc \
                    of tonic, and give the endpoint a tls_config";

/// An I/O that refuses to begin with plain HTTP/2 where it is meant to be secret.
pub(super) struct Guarded<T> {
    io: T,
    // Until the first bytes were seen.
    is_suspicious: bool,
}

// ===== impl Guarded =====

impl<T> Guarded<T> {
    pub(super) fn new(io: T, is_secret: bool) -> Self {
        Self {
            io,
            is_suspicious: is_secret,
        }
    }

    fn check(&mut self, bytes: &[u8]) -> io::Result<()> {
        if self.is_suspicious && !bytes.is_empty() {
            if bytes.starts_with(PLAIN) {
                return Err(io::Error::other(TEXT));
            }
            self.is_suspicious = false;
        }
        Ok(())
    }
}

impl<T: AsyncRead + Unpin> AsyncRead for Guarded<T> {
    fn poll_read(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        Pin::new(&mut self.get_mut().io).poll_read(cx, buffer)
    }
}

impl<T: AsyncWrite + Unpin> AsyncWrite for Guarded<T> {
    fn poll_write(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        let this = self.get_mut();
        this.check(bytes)?;
        Pin::new(&mut this.io).poll_write(cx, bytes)
    }

    fn poll_write_vectored(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        slices: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let this = self.get_mut();
        let first = slices.iter().find(|slice| !slice.is_empty());
        this.check(first.map_or(&[], |slice| slice))?;
        Pin::new(&mut this.io).poll_write_vectored(cx, slices)
    }

    fn is_write_vectored(&self) -> bool {
        self.io.is_write_vectored()
    }

    fn poll_flush(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.get_mut().io).poll_flush(cx)
    }

    fn poll_shutdown(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.get_mut().io).poll_shutdown(cx)
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
    struct Once(Option<Guarded<DuplexStream>>);

    impl Service<Uri> for Once {
        type Response = TokioIo<Guarded<DuplexStream>>;
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
        let once = Once(Some(Guarded::new(near, true)));
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
        let once = Once(Some(Guarded::new(near, false)));
        endpoint.connect_with_connector(once).await.unwrap();
        assert_eq!(far.read_u8().await.unwrap(), b'P');
    }

    #[tokio::test]
    async fn whatever_follows_a_secret_beginning_passes() {
        let (near, mut far) = duplex(64);
        let mut near = Guarded::new(near, true);
        near.write_all(b"").await.unwrap();
        near.write_all(&[0x16, 3, 1]).await.unwrap();
        near.write_all(PLAIN).await.unwrap();
        drop(near);
        let mut sent = Vec::new();
        far.read_to_end(&mut sent).await.unwrap();
        assert_eq!(sent, [&[0x16, 3, 1], PLAIN].concat());
    }
}
