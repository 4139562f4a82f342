//! One connection for one attempt: look-up, TCP, and the kill switch around it.

use std::future::Future;
use std::io;
use std::net::SocketAddr;
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;

use ::tonic::transport::Uri;
use futures_util::StreamExt;
use futures_util::stream::FuturesUnordered;
use hyper_util::rt::TokioIo;
use tokio::net::TcpStream;
use tower_service::Service;

use super::first_bytes::Telling;
use super::goodbye::{Goodbye, Overheard};
use super::kill::{KillSwitch, Killable};
use super::resolver::Resolver;

/// How long an address is tried alone before the next one is tried beside it.
const STAGGER: Duration = Duration::from_millis(250);

/// Addresses of one name that are tried in one attempt.
const MAX_ADDRESSES: usize = 8;

/// Makes the one connection of an attempt; refuses to make a second.
///
/// A channel reconnects by itself; a session must not, since its end would go unseen.
pub(super) struct Dial {
    once: Option<(Resolver, KillSwitch)>,
    goodbye: Goodbye,
    has_no_delay: bool,
}

// ===== impl Dial =====

impl Dial {
    pub(super) fn new(
        resolver: Resolver,
        switch: KillSwitch,
        goodbye: Goodbye,
        has_no_delay: bool,
    ) -> Self {
        Self {
            once: Some((resolver, switch)),
            goodbye,
            has_no_delay,
        }
    }
}

impl Service<Uri> for Dial {
    type Response = TokioIo<Telling<Killable<Overheard<TcpStream>>>>;
    type Error = io::Error;
    type Future = Pin<Box<dyn Future<Output = Result<Self::Response, io::Error>> + Send>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, uri: Uri) -> Self::Future {
        let once = self.once.take();
        let goodbye = self.goodbye.clone();
        let has_no_delay = self.has_no_delay;
        Box::pin(async move {
            let Some((resolver, switch)) = once else {
                return Err(io::Error::other("the connection of this session is over"));
            };
            let (host, port) = place(&uri)?;
            let addresses = resolver.resolve(&host, port).await;
            let stream = connect(&addresses.map_err(io::Error::other)?).await?;
            stream.set_nodelay(has_no_delay)?;
            let is_secret = uri.scheme_str() == Some("https");
            let stream = switch.guard(goodbye.overhear(stream, is_secret));
            Ok(TokioIo::new(Telling::new(stream, is_secret)))
        })
    }
}

fn place(uri: &Uri) -> io::Result<(String, u16)> {
    let host = uri.host().filter(|host| !host.is_empty());
    let wrong = |what| io::Error::other(format!("{uri} {what}, as http://host:7000 does"));
    let host = host.ok_or_else(|| wrong("names no host"))?;
    let standard = match uri.scheme_str() {
        Some("https") => 443,
        Some("http") => 80,
        _ => return Err(wrong("has no scheme that is http or https")),
    };
    let authority = uri.authority().map_or("", |authority| authority.as_str());
    let after_user = authority.rsplit('@').next().unwrap_or(authority);
    // The URI's own reading takes a port that is none for none at all.
    if uri.port_u16().is_none() && after_user.len() > host.len() + 1 {
        return Err(wrong("has no port between 0 and 65535"));
    }
    Ok((host.to_owned(), uri.port_u16().unwrap_or(standard)))
}

/// Connects to the first address that accepts, so that one that is silent does not
/// use up the attempt.
async fn connect(addresses: &[SocketAddr]) -> io::Result<TcpStream> {
    let mut dials = FuturesUnordered::new();
    let mut last_error = None;
    for address in addresses.iter().take(MAX_ADDRESSES) {
        dials.push(dial(*address));
        let answered = tokio::time::timeout(STAGGER, dials.next()).await;
        match answered {
            Ok(Some(Ok(stream))) => return Ok(stream),
            Ok(Some(Err(error))) => last_error = Some(error),
            Ok(None) | Err(_) => {}
        }
    }
    while let Some(answered) = dials.next().await {
        match answered {
            Ok(stream) => return Ok(stream),
            Err(error) => last_error = Some(error),
        }
    }
    Err(last_error.unwrap_or_else(|| io::Error::other("no address to connect to")))
}

async fn dial(address: SocketAddr) -> io::Result<TcpStream> {
    TcpStream::connect(address)
        .await
        .map_err(|error| io::Error::new(error.kind(), format!("{address}: {error}")))
}

#[cfg(test)]
mod tests {
    use tokio::net::TcpListener;

    use super::*;

    #[test]
    fn an_address_that_cannot_be_meant_is_refused_with_its_reason() {
        for (uri, why) in [
            ("http://host:99999", "no port"),
            ("http://[::1]:99999", "no port"),
            ("ftp://host:21", "no scheme"),
            ("host:7000", "no scheme"),
        ] {
            let error = place(&uri.parse().unwrap()).unwrap_err();
            assert!(error.to_string().contains(why), "{uri}: {error}");
        }
        for (uri, port) in [
            ("http://host", 80),
            ("https://host", 443),
            ("http://[::1]:7000", 7000),
            ("http://user@host:7000/x", 7000),
        ] {
            assert_eq!(place(&uri.parse().unwrap()).unwrap().1, port, "{uri}");
        }
    }

    #[test]
    fn a_uri_without_a_port_has_its_scheme_s_port() {
        let place = |uri: &'static str| place(&Uri::from_static(uri)).unwrap();
        assert_eq!(place("http://w1"), ("w1".to_owned(), 80));
        assert_eq!(place("https://w1/path"), ("w1".to_owned(), 443));
        assert_eq!(place("http://[::1]:7"), ("[::1]".to_owned(), 7));
    }

    #[tokio::test]
    async fn an_address_that_refuses_or_is_silent_does_not_hide_the_next() {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let live = listener.local_addr().unwrap();
        let refusing = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let refused = refusing.local_addr().unwrap();
        drop(refusing);
        let stream = connect(&[refused, live]).await.unwrap();
        assert_eq!(stream.peer_addr().unwrap(), live);
        let error = connect(&[refused]).await.unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::ConnectionRefused);
        assert!(error.to_string().contains(&refused.to_string()), "{error}");
        assert!(connect(&[]).await.is_err());
    }

    #[tokio::test]
    async fn a_dial_connects_once() {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let uri = format!("http://{}", listener.local_addr().unwrap());
        let uri: Uri = uri.parse().unwrap();
        let mut dial = Dial::new(
            Resolver::system(),
            KillSwitch::new(),
            Goodbye::default(),
            true,
        );
        dial.call(uri.clone()).await.unwrap();
        assert!(dial.call(uri).await.is_err());
    }
}
