//! S07: messages above a limit of either side.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

use bidi_session::tonic::{Acceptor, Tonic};
use bidi_session::{
    Direction, DisconnectReason, Event, EventKind, Events, FailureKind, InjectError, Pool,
    PoolConfig, SendErrorKind,
};
use tokio::net::TcpListener;
use tonic::transport::{Endpoint, Server, server::TcpIncoming};

use crate::real::wire::worker_server::WorkerServer;
use crate::real::{
    Command, Connect, Node, Reply, WorkerClient, answer, command, connected, endpoint, next, note,
    soon,
};

const MIB: usize = 1024 * 1024;

/// A worker that echoes, and what it has read.
struct Station {
    endpoint: Endpoint,
    read: Arc<AtomicU32>,
    _server: tokio_util::task::AbortOnDropHandle<()>,
}

/// A worker that decodes messages up to `limit` bytes; "give" asks it for 5 MiB.
async fn station(limit: usize) -> Station {
    let read = Arc::new(AtomicU32::new(0));
    let count = read.clone();
    let node = Node::new(Acceptor::new("w1", 1, 0), move |mut session| {
        let count = count.clone();
        async move {
            while let Some(mut command) = session.recv().await {
                count.fetch_add(1, Ordering::SeqCst);
                if command.body == b"give" {
                    command.body = vec![1; 5 * MIB];
                }
                if session.send(answer(command)).await.is_err() {
                    break;
                }
            }
        }
    });
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let endpoint = endpoint(listener.local_addr().unwrap());
    let service = WorkerServer::new(node).max_decoding_message_size(limit);
    let incoming = TcpIncoming::from(listener).with_nodelay(Some(true));
    let server = Server::builder().add_service(service);
    let server = tokio::spawn(async move {
        server.serve_with_incoming(incoming).await.unwrap();
    });
    Station {
        endpoint,
        read,
        _server: tokio_util::task::AbortOnDropHandle::new(server),
    }
}

/// A pool whose messages, both ways, may have this size.
fn pool(sends: usize, decodes: usize) -> (Pool<Connect>, Events<Connect>) {
    let connect = Tonic::new(move |channel, request| async move {
        let client = WorkerClient::new(channel).max_decoding_message_size(decodes);
        { client }.control(request).await
    });
    let connect = connect
        .with_answers(|reply: &Reply| reply.epoch)
        .with_max_message_bytes(sends);
    Pool::new(
        connect,
        PoolConfig::new(1).with_outbox(256, 32 * MIB).with_seed(7),
    )
}

fn large() -> Command {
    command(vec![0; 5 * MIB])
}

async fn failure(events: &mut Events<Connect>) -> (FailureKind, String) {
    let event: Event<Reply> = next(events).await;
    match event.kind {
        EventKind::Disconnected {
            reason: DisconnectReason::Failed(failure),
            ..
        } => (failure.kind, failure.text),
        kind => panic!("no broken session: {kind:?}"),
    }
}

fn is_too_large(kind: FailureKind, way: Direction) -> bool {
    matches!(kind, FailureKind::TooLarge { direction, size, limit }
        if direction == way && (5 * MIB..5 * MIB + 16).contains(&size) && limit == 4 * MIB)
}

#[tokio::test]
async fn s07_an_outgoing_message_is_refused_before_it_is_queued_and_the_session_stays() {
    let station = station(4 * MIB).await;
    let (pool, mut events) = pool(4 * MIB, 4 * MIB);
    pool.insert("w1", station.endpoint.clone());
    let (generation, _) = connected(&mut events).await;
    let refused = pool.try_send("w1", large()).unwrap_err();
    assert!(
        matches!(refused.kind, SendErrorKind::TooLarge { size, limit }
        if size == 5 * MIB + 5 && limit == 4 * MIB)
    );
    assert_eq!(
        refused.to_string(),
        "message to w1 not queued: 5242885 bytes, more than the limit of 4194304"
    );
    assert_eq!(refused.message, large());
    let kind = pool.send("w1", large()).await.unwrap_err().kind;
    assert_eq!(kind, refused.kind);
    let why = pool.inject(1, ["w1"], |_| large()).unwrap_err();
    let InjectError::NotQueued { refused: each } = why else {
        panic!("{why}");
    };
    assert_eq!(each, [("w1".into(), refused.kind)]);
    pool.send("w1", command("small")).await.unwrap();
    let event = next(&mut events).await;
    assert_eq!(
        (event.generation, event.kind),
        (generation, EventKind::Message(note("small")))
    );
    assert_eq!(station.read.load(Ordering::SeqCst), 1);
}

#[tokio::test]
async fn s07_an_answer_above_the_limit_ends_its_session_typed_and_nothing_is_sent_again() {
    let station = station(4 * MIB).await;
    let (pool, mut events) = pool(16 * MIB, 4 * MIB);
    pool.insert("w1", station.endpoint.clone());
    let mut fault = 0;
    for _ in 0..3 {
        connected(&mut events).await;
        pool.send("w1", command("give")).await.unwrap();
        let (kind, text) = failure(&mut events).await;
        assert!(is_too_large(kind, Direction::FromWorker), "{kind:?} {text}");
        fault += 1;
        assert_eq!(station.read.load(Ordering::SeqCst), fault);
    }
    println!("CASE S07 fault={fault}");
}

#[tokio::test]
async fn s07_a_worker_with_a_lower_limit_ends_the_session_and_says_what_it_takes() {
    let station = station(4 * MIB).await;
    let (pool, mut events) = pool(16 * MIB, 16 * MIB);
    pool.insert("w1", station.endpoint.clone());
    let mut fault = 0;
    for id in 1..3 {
        connected(&mut events).await;
        let round = pool.inject(id, ["w1"], |_| large()).unwrap();
        let (kind, text) = failure(&mut events).await;
        assert!(is_too_large(kind, Direction::ToWorker), "{kind:?} {text}");
        let why = soon(round.collect(crate::real::LONG)).await.unwrap_err();
        assert!(why.to_string().contains("too large"), "{why}");
        fault += 1;
    }
    connected(&mut events).await;
    // Nothing came by itself: the next thing the worker reads is this.
    pool.send("w1", command("small")).await.unwrap();
    assert_eq!(
        next(&mut events).await.kind,
        EventKind::Message(note("small"))
    );
    assert_eq!(station.read.load(Ordering::SeqCst), 1);
    println!("CASE S07 fault={fault}");
}

#[tokio::test]
async fn s07_with_both_limits_raised_it_works_both_ways() {
    let station = station(16 * MIB).await;
    let (pool, mut events) = pool(16 * MIB, 16 * MIB);
    pool.insert("w1", station.endpoint.clone());
    connected(&mut events).await;
    for body in [large(), command("give")] {
        pool.send("w1", body).await.unwrap();
        let event = next(&mut events).await;
        assert!(matches!(event.kind, EventKind::Message(reply) if reply.body.len() == 5 * MIB));
    }
}
