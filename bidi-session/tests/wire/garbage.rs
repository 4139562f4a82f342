//! Peers that are no workers: they send garbage, hang up, or speak something else.

use std::time::Duration;

use bidi_session::{EventKind, OpenClass, PoolConfig};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::task::JoinSet;

use super::real::{
    Host, Node, command, connected, endpoint, failed_attempt, next, note, pool, pool_with, soon,
};
use super::tap::{Side, Tap};

/// What a peer does with a connection.
#[derive(Clone, Copy)]
enum Manners {
    HangUp,
    Reset,
    /// Answers with these bytes.
    Say(&'static [u8]),
    /// Answers with SETTINGS and this frame.
    Frame(&'static [u8]),
}

impl Manners {
    async fn meet(self, mut stream: TcpStream) {
        let bytes = match self {
            Self::HangUp => return,
            Self::Reset => {
                let _ = stream.set_zero_linger();
                return;
            }
            Self::Say(bytes) => bytes.to_vec(),
            Self::Frame(frame) => [SETTINGS, frame].concat(),
        };
        let mut first = [0; 1024];
        let _ = stream.read(&mut first).await;
        let _ = stream.write_all(&bytes).await;
        let _ = stream.shutdown().await;
        // The peer must get to read it.
        while let Ok(1..) = stream.read(&mut first).await {}
    }
}

/// SETTINGS, empty, and the acknowledgment of the peer's.
const SETTINGS: &[u8] = &[0, 0, 0, 4, 0, 0, 0, 0, 0, 0, 0, 0, 4, 1, 0, 0, 0, 0];
/// RST_STREAM of stream 1 with REFUSED_STREAM.
const REFUSE: &[u8] = &[0, 0, 4, 3, 0, 0, 0, 0, 1, 0, 0, 0, 7];
/// GOAWAY, last stream 0, ENHANCE_YOUR_CALM.
const GO_AWAY: &[u8] = &[0, 0, 8, 7, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 11];
/// HEADERS of stream 1 with `:status: 404`, by the index of HPACK's table.
const NOT_FOUND: &[u8] = &[0, 0, 1, 1, 5, 0, 0, 0, 1, 0x8d];
/// HEADERS of stream 1 whose block is an index that no table has.
const BAD_HEADERS: &[u8] = &[0, 0, 2, 1, 5, 0, 0, 0, 1, 0xff, 0xff];

/// Peers and what must be in the text of the attempt that met them.
const PEERS: [(&str, Manners, &str); 12] = [
    ("hangs up", Manners::HangUp, "connection"),
    ("resets", Manners::Reset, "reset"),
    (
        "is a mail server",
        Manners::Say(b"220 mail.example ESMTP\r\n"),
        "frame",
    ),
    (
        "answers HTTP/1.1",
        Manners::Say(b"HTTP/1.1 400 Bad Request\r\n\r\n"),
        "http/1",
    ),
    (
        "complains of no TLS",
        Manners::Say(&[0x15, 3, 3, 0, 2, 2, 70]),
        "tls",
    ),
    ("sends zeros", Manners::Say(&[0; 4096]), "protocol error"),
    ("sends ones", Manners::Say(&[0xff; 4096]), "frame"),
    (
        "hangs up after its settings",
        Manners::Say(SETTINGS),
        "connection",
    ),
    ("refuses the stream", Manners::Frame(REFUSE), "refused"),
    ("goes away", Manners::Frame(GO_AWAY), "load"),
    (
        "is a web server",
        Manners::Frame(NOT_FOUND),
        "without a handshake",
    ),
    (
        "compresses badly",
        Manners::Frame(BAD_HEADERS),
        "connection",
    ),
];

#[tokio::test]
async fn a_peer_that_is_no_worker_is_a_failed_attempt_that_says_what_it_met() {
    let node = Node::echo("w1", 1);
    let host = Host::start(node.clone());
    let (pool, mut events) = pool(1);
    for (name, manners, told) in PEERS {
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a free port");
        let address = listener.local_addr().expect("an address");
        let mut peer = JoinSet::new();
        peer.spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                // One after the other is enough: a pool dials a worker once at a time.
                manners.meet(stream).await;
            }
        });
        pool.insert("w1", endpoint(address));
        let event = soon(events.recv()).await.expect("open");
        let EventKind::AttemptFailed { error, .. } = event.kind else {
            panic!("a peer that {name} has a session: {event:?}");
        };
        println!("{name}: {error}");
        assert!(error.text.to_lowercase().contains(told), "{name}: {error}");
        assert!(error.text.len() <= 320, "{name}: {error}");
        // It is tried again.
        failed_attempt(&mut events).await;
        pool.remove("w1");
        while next(&mut events).await.kind != EventKind::Removed {}
    }
    pool.insert("w1", host.endpoint());
    connected(&mut events).await;
    assert_eq!(node.calls(), 1);
}

#[tokio::test]
async fn a_connection_that_ends_at_any_byte_is_retried_until_it_holds() {
    let node = Node::echo("w1", 1);
    let host = Host::start(node.clone());
    let tap = Tap::start(host.address).await;
    // How much each side says until the session is up, and a message was answered.
    let (pool, mut events) = pool(1);
    pool.insert("w1", endpoint(tap.address));
    connected(&mut events).await;
    pool.try_send("w1", command("whole")).expect("it is up");
    next(&mut events).await;
    let whole = [Side::Controller, Side::Worker].map(|side| (side, tap.passed(side)));
    pool.remove("w1");
    while next(&mut events).await.kind != EventKind::Removed {}
    let (mut failed, mut lost) = (0, 0);
    for (side, bytes) in whole {
        for cut in 0..bytes {
            tap.cut_after(side, cut);
            pool.insert("w1", endpoint(tap.address));
            let event = soon(events.recv()).await.expect("open");
            match event.kind {
                EventKind::AttemptFailed { error, .. } => {
                    assert_eq!(
                        error.class,
                        OpenClass::Unreachable,
                        "{side:?} {cut}: {error}"
                    );
                    failed += 1;
                }
                EventKind::Connected { .. } => lost += 1,
                kind => panic!("{side:?} {cut}: {kind:?}"),
            }
            tap.pass();
            pool.remove("w1");
            while soon(events.recv()).await.expect("open").kind != EventKind::Removed {}
        }
    }
    pool.insert("w1", endpoint(tap.address));
    connected(&mut events).await;
    pool.try_send("w1", command("whole")).expect("it is up");
    assert_eq!(
        next(&mut events).await.kind,
        EventKind::Message(note("whole"))
    );
    assert!(failed > 0 && lost > 0, "{failed} failed, {lost} lost");
    assert!(tap.cuts() >= failed, "{} of {failed}", tap.cuts());
    println!("CASE cut-at-any-byte fault={}", tap.cuts());
}

#[tokio::test]
async fn a_peer_that_takes_a_connection_and_is_silent_ends_with_the_attempt() {
    let listener = TcpListener::bind("127.0.0.1:0").await.expect("a free port");
    let address = listener.local_addr().expect("an address");
    let limit = Duration::from_millis(300);
    let (pool, mut events) = pool_with(PoolConfig::new(1).with_attempt_timeout(limit));
    pool.insert("w1", endpoint(address));
    let text = failed_attempt(&mut events).await;
    assert!(text.contains("no session within 0.3 s"), "{text}");
    assert!(text.contains(&address.to_string()), "{text}");
    // The connection was closed: its end can be read.
    let (mut stream, _) = soon(listener.accept()).await.expect("it was dialed");
    let mut said = Vec::new();
    let _ = soon(stream.read_to_end(&mut said)).await;
    assert!(said.starts_with(b"PRI * HTTP/2.0"), "{said:?}");
}

#[tokio::test]
async fn garbage_at_a_worker_s_door_does_not_disturb_its_session() {
    let node = Node::echo("w1", 1);
    let host = Host::start(node.clone());
    let (pool, mut events) = pool(1);
    pool.insert("w1", host.endpoint());
    let (generation, _) = connected(&mut events).await;
    let preface = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n".as_slice();
    let mut strangers = Vec::new();
    let mut random = fastrand::Rng::with_seed(5);
    let noise: Vec<u8> = std::iter::repeat_with(|| random.u8(..))
        .take(4096)
        .collect();
    for start in [
        b"GET / HTTP/1.1\r\n\r\n".as_slice(),
        &[0x16, 3, 1],
        preface,
        b"",
    ] {
        for rest in [noise.as_slice(), SETTINGS, GO_AWAY, BAD_HEADERS, b""] {
            let mut stream = TcpStream::connect(host.address).await.expect("it listens");
            let _ = stream.write_all(&[start, rest].concat()).await;
            strangers.push(stream);
        }
    }
    pool.try_send("w1", command("still here"))
        .expect("it is up");
    let told = next(&mut events).await;
    assert_eq!(told.kind, EventKind::Message(note("still here")));
    assert_eq!(told.generation, generation);
    assert_eq!(node.calls(), 1, "none of it was a call");
}
