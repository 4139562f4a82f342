//! A worker that is lost behind messages that nobody takes.
#![cfg(feature = "tonic")]

mod real;

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use bidi_session::tonic::Acceptor;
use bidi_session::{EventKind, Events, PoolConfig, RoundError};
use tokio::sync::Notify;

use real::{
    AT_ONCE, Connect, Host, LONG, Node, WorkerSession, barrier, connected, disconnected, next,
    note, pool_with, soon, within,
};

/// What the flooding worker sends: 20 MB, far more than windows and queues hold.
const CHUNKS: usize = 1000;
const CHUNK_BYTES: usize = 20 * 1024;

async fn message(events: &mut Events<Connect>) -> Vec<u8> {
    let event = next(events).await;
    match event.kind {
        EventKind::Message(reply) => reply.body,
        kind => panic!("no message: {kind:?}"),
    }
}

#[tokio::test]
async fn a_death_fails_the_round_and_is_told_although_nobody_takes_the_messages() {
    let said = Arc::new(Notify::new());
    let all_said = said.clone();
    let handler = move |session: WorkerSession| {
        let said = said.clone();
        async move {
            for number in 0..40 {
                session.send(note(number.to_string())).await.unwrap();
            }
            said.notify_one();
            std::future::pending().await
        }
    };
    let host = Host::start(Node::new(Acceptor::new("w1", 1, 0), handler));
    let (pool, mut events) = pool_with(PoolConfig::new(1).with_inbox(4));
    pool.insert("w1", host.endpoint());
    pool.ready(["w1"], LONG).await.unwrap();
    let round = pool.inject(1, ["w1"], |_| barrier(1)).unwrap();
    soon(all_said.notified()).await;
    host.kill();
    let failed = within(AT_ONCE, round.collect(LONG)).await;
    assert!(matches!(failed, Err(RoundError::Failed { .. })));
    assert_eq!(pool.state("w1").unwrap().session(), None);
    // What had arrived comes first, in order, and then the end.
    let (began, _) = connected(&mut events).await;
    let mut told = 0;
    let ended = loop {
        let event = next(&mut events).await;
        match event.kind {
            EventKind::Message(reply) => assert_eq!(reply.body, told.to_string().as_bytes()),
            EventKind::Disconnected { .. } => break event.generation,
            kind => panic!("{kind:?}"),
        }
        told += 1;
    };
    assert_eq!(ended, began);
    assert!(told >= 4, "{told}");
}

#[tokio::test]
async fn twenty_megabytes_wait_at_the_worker_and_all_arrive_after_it_has_returned() {
    let sent = Arc::new(AtomicUsize::new(0));
    let count = sent.clone();
    let handler = move |session: WorkerSession| {
        let sent = sent.clone();
        async move {
            for number in 0..CHUNKS {
                let mut body = vec![b'.'; CHUNK_BYTES];
                body[..4].copy_from_slice(format!("{number:04}").as_bytes());
                if session.send(note(body)).await.is_err() {
                    return;
                }
                sent.fetch_add(1, Ordering::SeqCst);
            }
        }
    };
    let host = Host::start(Node::new(Acceptor::new("w1", 1, 0), handler));
    let others = ["w2", "w3", "w4"];
    let addresses = others.map(|name| host.also(Node::echo(name, 1)));
    let (pool, mut events) = pool_with(PoolConfig::new(1).with_inbox(16));
    pool.insert("w1", host.endpoint());
    pool.ready(["w1"], LONG).await.unwrap();
    connected(&mut events).await;
    for (name, address) in others.iter().zip(addresses) {
        pool.insert(*name, real::endpoint(address));
    }
    pool.ready(others, LONG).await.unwrap();
    for epoch in 1..=100 {
        let round = pool.inject(epoch, others, |_| barrier(epoch)).unwrap();
        within(AT_ONCE, round.collect(LONG)).await.unwrap();
    }
    // Windows and queues hold a part; the rest waits at the worker.
    let held = count.load(Ordering::SeqCst);
    assert!(held > 16 && held < CHUNKS, "{held}");
    for name in others {
        pool.remove(name);
    }
    let mut expected = 0;
    while expected < CHUNKS {
        let event = next(&mut events).await;
        if event.worker.as_str() != "w1" {
            continue;
        }
        let EventKind::Message(reply) = event.kind else {
            panic!("{:?}", event.kind);
        };
        assert!(reply.body.starts_with(format!("{expected:04}").as_bytes()));
        expected += 1;
    }
    let (_, reason) = disconnected(&mut events).await;
    assert_eq!(reason, "the worker closed the stream");
    // The next session is read as if nothing had been.
    connected(&mut events).await;
    assert!(message(&mut events).await.starts_with(b"0000"));
}
