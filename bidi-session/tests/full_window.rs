//! Streams whose windows and queues are full on both sides.
#![cfg(feature = "tonic")]

mod real;

use bidi_session::tonic::Acceptor;
use bidi_session::{EventKind, PoolConfig};

use real::{
    AT_ONCE, Host, LONG, Node, Reply, WorkerSession, barrier, command, connected, disconnected,
    next, note, pool, pool_with, soon, within,
};

/// Larger than the windows of stream and connection together.
const FLOOD: usize = 200;
static BIG: [u8; 64 * 1024] = [7; 64 * 1024];

#[tokio::test]
async fn a_worker_that_does_not_read_learns_of_the_end_all_the_same() {
    let (node, mut sessions) = Node::played(Acceptor::new("w1", 1, 0));
    let host = Host::start(node);
    let config = PoolConfig::new(1).with_outbox(FLOOD, FLOOD * BIG.len() * 2);
    let (pool, mut events) = pool_with(config);
    pool.insert("w1", host.endpoint());
    connected(&mut events).await;
    let mut session = soon(sessions.recv()).await.unwrap();
    let mut queued = 0;
    while let Ok(()) = pool.try_send("w1", command(&BIG[..])) {
        queued += 1;
        tokio::task::yield_now().await;
    }
    assert!(queued >= FLOOD, "the outbox is full: {queued}");
    pool.remove("w1");
    within(AT_ONCE, session.sender().over()).await;
    assert!(
        soon(session.recv()).await.is_none(),
        "what is buffered is dropped"
    );
}

#[tokio::test]
async fn an_owner_that_does_not_read_stops_its_worker_and_not_its_end() {
    let node = Node::new(
        Acceptor::new("w1", 1, 0),
        |session: WorkerSession| async move { while session.send(note(&BIG[..])).await.is_ok() {} },
    );
    let acceptor = node.acceptor.clone();
    let host = Host::start(node);
    let config = PoolConfig::new(1).with_inbox(4);
    let (pool, mut events) = pool_with(config);
    pool.insert("w1", host.endpoint());
    pool.ready(&["w1"], LONG).await.unwrap();
    connected(&mut events).await;
    for _ in 0..10 {
        assert!(matches!(
            next(&mut events).await.kind,
            EventKind::Message(_)
        ));
    }
    // The worker is in the middle of its flood, the window is full or will be.
    acceptor.close();
    let mut messages = 0;
    loop {
        let event = next(&mut events).await;
        match event.kind {
            EventKind::Message(Reply { .. }) => messages += 1,
            EventKind::Disconnected { reason, .. } => {
                assert!(
                    reason.to_string().contains("acceptor was closed"),
                    "{reason}"
                );
                break;
            }
            kind => panic!("{kind:?}"),
        }
    }
    assert!(messages < 1000, "{messages}");
}

#[tokio::test]
async fn a_slow_worker_fills_its_own_outbox_only() {
    let (node, mut sessions) = Node::played(Acceptor::new("slow", 1, 0));
    let host = Host::start(node);
    let quick = host.also(Node::echo("quick", 1));
    let (pool, mut events) = pool(1);
    pool.insert("slow", host.endpoint());
    connected(&mut events).await;
    pool.insert("quick", real::endpoint(quick));
    connected(&mut events).await;
    let session = soon(sessions.recv()).await.unwrap();
    // Large ones until the windows and the bytes are full, small ones until the count is.
    for body in [&BIG[..], &[]] {
        while let Ok(()) = pool.try_send("slow", command(body)) {
            tokio::task::yield_now().await;
        }
    }
    for id in 1..=50 {
        let round = pool.inject(id, ["quick"], |_| barrier(id)).unwrap();
        within(AT_ONCE, round.collect(LONG)).await.unwrap();
    }
    let refused = pool.inject(51, ["quick", "slow"], |_| barrier(51));
    assert!(
        refused
            .unwrap_err()
            .to_string()
            .contains("slow (the outbox is full)")
    );
    // A refused round used no id and queued nothing.
    let round = pool.inject(51, ["quick"], |_| barrier(51)).unwrap();
    within(AT_ONCE, round.collect(LONG)).await.unwrap();
    drop(session);
    pool.remove("slow");
    let (_, reason) = disconnected(&mut events).await;
    assert_eq!(reason, "the worker was removed");
}
