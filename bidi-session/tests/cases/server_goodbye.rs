//! Servers that end a stream or a connection while it is in use.

use std::net::SocketAddr;
use std::time::Duration;

use bidi_session::tonic::{Acceptor, FaultProxy};
use bidi_session::{EventKind, Events};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::task::JoinSet;
use tokio::time::Instant;
use tonic::transport::Server;
use tonic::transport::server::TcpIncoming;

use super::real::wire::worker_server::WorkerServer;
use super::real::{
    Connect, Node, WorkerSession, answer, command, connected, disconnected, endpoint, next, note,
    pool, soon,
};

const PREFACE_BYTES: usize = 24;
const HEADERS: u8 = 1;
const RST_STREAM: u8 = 3;
const SETTINGS: u8 = 4;
const PING: u8 = 6;
const GOAWAY: u8 = 7;
const ACK: u8 = 1;
const END_HEADERS: u8 = 4;

const INTERNAL_ERROR: u32 = 2;
const REFUSED_STREAM: u32 = 7;
const CANCEL: u32 = 8;
const ENHANCE_YOUR_CALM: u32 = 11;

/// How a worker that speaks frames says goodbye to its first sessions.
#[derive(Clone, Copy, Debug)]
enum Goodbye {
    ResetStream(u32),
    /// With an error, and the connection closed behind it.
    GoAway(u32),
    /// The connection closed without a word.
    Close,
}

/// What it says of it, one for each session; the last one stays.
const GOODBYES: [(Goodbye, &str); 6] = [
    (Goodbye::ResetStream(CANCEL), "cancel"),
    (Goodbye::ResetStream(INTERNAL_ERROR), "internal error"),
    (Goodbye::ResetStream(REFUSED_STREAM), "refused"),
    (Goodbye::GoAway(INTERNAL_ERROR), "(internal error)"),
    (Goodbye::GoAway(0), "(no error)"),
    (Goodbye::Close, "broken pipe"),
];

#[tokio::test]
async fn a_stream_or_connection_that_the_server_ends_is_followed_by_a_new_session() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let proxy = FaultProxy::start(address).unwrap();
    let mut server = JoinSet::new();
    server.spawn(async move {
        for goodbye in GOODBYES
            .iter()
            .map(|(goodbye, _)| Some(*goodbye))
            .chain([None])
        {
            let (stream, _) = listener.accept().await.unwrap();
            speak(stream, goodbye).await.unwrap();
        }
    });
    let (pool, mut events) = pool(1);
    pool.insert("w1", endpoint(proxy.address()));
    let mut last = 0;
    for (goodbye, cause) in GOODBYES {
        let (generation, _) = connected(&mut events).await;
        assert!(generation > last, "{goodbye:?}");
        let (ended, reason) = disconnected(&mut events).await;
        println!("{goodbye:?}: {reason}");
        assert_eq!(ended, generation);
        let told = reason.to_lowercase().replace('_', " ");
        assert!(told.contains(cause), "{goodbye:?}: {reason}");
        last = generation;
    }
    let (generation, _) = connected(&mut events).await;
    assert!(generation > last);
    assert_eq!(pool.state("w1").unwrap().session(), Some(generation));
    // The last connection stays.
    let goodbyes = proxy.counts().connections - 1;
    println!("CASE goodbye fault={goodbyes}");
}

/// As gRPC in Go ends a connection that is pinged every few seconds.
#[tokio::test]
async fn a_server_that_forbids_pings_by_goaway_is_left_in_peace_from_then_on() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let proxy = FaultProxy::start(listener.local_addr().unwrap()).unwrap();
    let mut server = JoinSet::new();
    server.spawn(async move {
        for goodbye in [Some(Goodbye::GoAway(ENHANCE_YOUR_CALM)), None] {
            let (stream, _) = listener.accept().await.unwrap();
            speak(stream, goodbye).await.unwrap();
        }
    });
    let (pool, mut events) = pool(1);
    pool.insert("w1", endpoint(proxy.address()));
    connected(&mut events).await;
    let (_, reason) = disconnected(&mut events).await;
    assert!(reason.contains("(ENHANCE_YOUR_CALM)"), "{reason}");
    connected(&mut events).await;
    // Past the exchange at the start; a ping after 5 s would fall into the rest.
    tokio::time::sleep(Duration::from_secs(1)).await;
    let before = proxy.counts().to_target.passed;
    tokio::time::sleep(Duration::from_secs(5)).await;
    assert_eq!(proxy.counts().to_target.passed, before);
    println!(
        "CASE pings-forbidden fault={}",
        proxy.counts().connections - 1
    );
}

/// A worker of one connection: welcomes, and says goodbye when the session is up.
async fn speak(mut stream: TcpStream, goodbye: Option<Goodbye>) -> std::io::Result<()> {
    stream.read_exact(&mut [0; PREFACE_BYTES]).await?;
    frame(&mut stream, SETTINGS, 0, 0, &[]).await?;
    loop {
        let (kind, flags, id, payload) = read_frame(&mut stream).await?;
        match kind {
            SETTINGS if flags & ACK == 0 => frame(&mut stream, SETTINGS, ACK, 0, &[]).await?,
            PING if flags & ACK == 0 => frame(&mut stream, PING, ACK, 0, &payload).await?,
            HEADERS => {
                frame(&mut stream, HEADERS, END_HEADERS, id, &welcome()).await?;
                match goodbye {
                    None => return std::future::pending().await,
                    Some(Goodbye::Close) => return Ok(()),
                    Some(Goodbye::ResetStream(code)) => {
                        frame(&mut stream, RST_STREAM, 0, id, &code.to_be_bytes()).await?;
                    }
                    Some(Goodbye::GoAway(code)) => {
                        let body = [id.to_be_bytes(), code.to_be_bytes()].concat();
                        frame(&mut stream, GOAWAY, 0, 0, &body).await?;
                    }
                }
                // What the client still says is read: unread, it would reset the connection
                // and the goodbye with it.
                if let Some(Goodbye::GoAway(_)) = goodbye {
                    stream.shutdown().await?;
                }
                let mut rest = Vec::new();
                stream.read_to_end(&mut rest).await?;
                return Ok(());
            }
            _ => {}
        }
    }
}

/// The header block of the handshake's answer: literals that no table keeps.
fn welcome() -> Vec<u8> {
    let mut block = vec![0x88]; // :status 200
    for (name, value) in [
        ("content-type", "application/grpc"),
        ("bidi-session-version", "1"),
        ("bidi-session-worker", "w1"),
        ("bidi-session-incarnation", "1"),
    ] {
        block.push(0);
        for text in [name, value] {
            block.push(u8::try_from(text.len()).unwrap());
            block.extend_from_slice(text.as_bytes());
        }
    }
    block
}

async fn frame(
    stream: &mut TcpStream,
    kind: u8,
    flags: u8,
    id: u32,
    payload: &[u8],
) -> std::io::Result<()> {
    let length = u32::try_from(payload.len()).unwrap().to_be_bytes();
    let mut bytes = length[1..].to_vec();
    bytes.extend_from_slice(&[kind, flags]);
    bytes.extend_from_slice(&id.to_be_bytes());
    bytes.extend_from_slice(payload);
    stream.write_all(&bytes).await
}

async fn read_frame(stream: &mut TcpStream) -> std::io::Result<(u8, u8, u32, Vec<u8>)> {
    let mut head = [0; 9];
    stream.read_exact(&mut head).await?;
    let length = u32::from_be_bytes([0, head[0], head[1], head[2]]);
    let id = u32::from_be_bytes([head[5], head[6], head[7], head[8]]);
    let mut payload = vec![0; length as usize];
    stream.read_exact(&mut payload).await?;
    Ok((head[3], head[4], id, payload))
}

const AGE: Duration = Duration::from_secs(2);
const GRACE: Duration = Duration::from_millis(500);

/// Serves with connections that may live for `AGE`, and with a grace only where given.
async fn aging(server: &mut JoinSet<()>, node: Node, grace: Option<Duration>) -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let mut builder = Server::builder().max_connection_age(AGE);
    if let Some(grace) = grace {
        builder = builder.max_connection_age_grace(grace);
    }
    let served = builder
        .add_service(WorkerServer::new(node))
        .serve_with_incoming(TcpIncoming::from(listener).with_nodelay(Some(true)));
    server.spawn(async move { served.await.unwrap() });
    address
}

#[tokio::test]
async fn a_connection_that_is_too_old_is_followed_by_a_new_session() {
    tokio::join!(with_grace(), without_grace());
}

async fn with_grace() {
    let mut server = JoinSet::new();
    let address = aging(&mut server, Node::echo("w1", 1), Some(GRACE)).await;
    let proxy = FaultProxy::start(address).unwrap();
    let (pool, mut events) = pool(1);
    pool.insert("w1", endpoint(proxy.address()));
    let (first, _) = connected(&mut events).await;
    let start = Instant::now();
    let (ended, reason) = disconnected(&mut events).await;
    let age = start.elapsed();
    println!("age 2 s, grace 0.5 s: ended after {age:.2?}: {reason}");
    assert_eq!(ended, first);
    assert!(age + Duration::from_millis(100) > AGE + GRACE, "{age:?}");
    // This server closes at the end of the grace, and says nothing before it.
    assert!(reason.contains("from connection"), "{reason}");
    let (second, _) = connected(&mut events).await;
    assert!(second > first);
    says(&pool, &mut events, "after").await;
    let ended = proxy.counts().connections - 1;
    println!("CASE too-old-with-grace fault={ended}");
}

/// The server only asks to be left: the session goes on until its handler is done.
async fn without_grace() {
    let handler = |mut session: WorkerSession| async move {
        while let Some(command) = session.recv().await {
            let is_last = command.body == b"last";
            drop(session.send(answer(command)).await);
            if is_last {
                break;
            }
        }
    };
    let mut server = JoinSet::new();
    let node = Node::new(Acceptor::new("w1", 1, 0), handler);
    let address = aging(&mut server, node, None).await;
    let proxy = FaultProxy::start(address).unwrap();
    let (pool, mut events) = pool(1);
    pool.insert("w1", endpoint(proxy.address()));
    let (first, _) = connected(&mut events).await;
    let start = Instant::now();
    says(&pool, &mut events, "before").await;
    tokio::time::sleep(Duration::from_millis(300)).await;
    let before = proxy.counts().to_client.passed;
    soon(async {
        while proxy.counts().to_client.passed == before {
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    })
    .await;
    assert!(
        start.elapsed() + Duration::from_millis(100) > AGE,
        "that was no goodbye"
    );
    let goodbye = proxy.counts().to_client.passed - before;
    says(&pool, &mut events, "still here").await;
    assert_eq!(pool.state("w1").unwrap().session(), Some(first));
    says(&pool, &mut events, "last").await;
    let (ended, reason) = disconnected(&mut events).await;
    assert_eq!(
        (ended, &reason[..]),
        (first, "the worker closed the stream")
    );
    let (second, _) = connected(&mut events).await;
    assert!(second > first);
    says(&pool, &mut events, "after").await;
    println!("CASE too-old-without-grace fault={goodbye}");
}

async fn says(pool: &bidi_session::Pool<Connect>, events: &mut Events<Connect>, text: &str) {
    pool.try_send("w1", command(text)).unwrap();
    let event = next(events).await;
    assert_eq!(event.kind, EventKind::Message(note(text)));
}
