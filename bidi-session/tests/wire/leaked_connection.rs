//! Connections, calls and handlers that stay behind when a session ends.

use std::time::Duration;

use bidi_session::tonic::{Acceptor, Session};
use bidi_session::{Counters, RoundError};
use tokio::time::Instant;

use crate::support::{
    Accepting, Command, Gauge, Host, LONG, Reply, barrier, echo, endpoint, next, note, pool,
    reserve, soon,
};

#[tokio::test]
async fn removal_closes_the_connection_and_the_same_id_starts_afresh() {
    let host = Host::echo("w1", 1);
    let (pool, mut events) = pool(1);
    pool.insert("w1", endpoint(host.address));
    assert_eq!(next(&mut events).await, "w1 connected to 1");
    assert_eq!(host.connections.count(), 1);
    let before = pool.state("w1").unwrap().generation;
    let removed = Instant::now();
    assert!(pool.remove("w1"));
    host.connections.until(0).await;
    assert!(removed.elapsed() < Duration::from_secs(1));
    pool.insert("w1", endpoint(host.address));
    assert_eq!(next(&mut events).await, "w1 lost: the worker was removed");
    assert_eq!(next(&mut events).await, "w1 removed");
    assert_eq!(next(&mut events).await, "w1 connected to 1");
    assert!(pool.state("w1").unwrap().generation > before);
}

#[tokio::test]
async fn the_last_drop_of_the_pool_leaves_nothing_behind() {
    let handlers = Gauge::new();
    let hosts: Vec<_> = (0..20)
        .map(|number| {
            let inside = handlers.clone();
            let script = move |session| {
                let inside = inside.enter();
                async move {
                    let _inside = inside;
                    echo(session).await;
                }
            };
            let acceptor = Acceptor::new(number, 1, 0);
            Host::start(Accepting::new(acceptor, script))
        })
        .collect();
    let (pool, mut events) = pool(1);
    let mut reserved = Vec::new();
    for (number, host) in (0..).zip(&hosts) {
        pool.insert(number, endpoint(host.address));
        let (address, socket) = reserve();
        pool.insert(number + 100, endpoint(address));
        reserved.push(socket);
    }
    let up: Vec<_> = (0..20).map(|number| number.to_string()).collect();
    pool.ready(&up, LONG).await.unwrap();
    let clone = pool.clone();
    drop(pool);
    let round = clone.inject(1, &up, |_| barrier(1)).unwrap();
    round.collect(LONG).await.unwrap();
    let round = clone.inject(2, ["1"], |_| note("no answer")).unwrap();
    let collected = tokio::spawn(round.collect(LONG));
    tokio::task::yield_now().await;
    let dropped = Instant::now();
    drop(clone);
    for host in &hosts {
        host.connections.until(0).await;
    }
    handlers.until(0).await;
    assert!(dropped.elapsed() < Duration::from_secs(1));
    assert!(matches!(
        soon(collected).await.unwrap(),
        Err(RoundError::Closed)
    ));
    while next(&mut events).await != "end" {}
}

#[tokio::test]
async fn a_session_that_nobody_reads_ends_although_its_window_is_full() {
    // A full window hides the end of a stream, and even that of a channel.
    let (sessions, mut taken) = tokio::sync::mpsc::channel(1);
    let script = move |session: Session<Command, Reply>| {
        let sessions = sessions.clone();
        async move {
            let sender = session.sender();
            sessions.send(session).await.unwrap();
            sender.over().await;
        }
    };
    let host = Host::start(Accepting::new(Acceptor::new("w1", 1, 0), script));
    let (pool, mut events) = pool(1);
    pool.insert("w1", endpoint(host.address));
    assert_eq!(next(&mut events).await, "w1 connected to 1");
    let mut session = soon(taken.recv()).await.unwrap();
    let full = loop {
        if let Err(full) = pool.try_send("w1", note(vec![0; 16 * 1024])) {
            // What is on its way may still find room; a pause tells it from the end.
            tokio::time::sleep(Duration::from_millis(50)).await;
            if pool.try_send("w1", note(vec![0; 16 * 1024])).is_err() {
                break full;
            }
        }
    };
    assert_eq!(full.kind, bidi_session::SendErrorKind::Full);
    let removed = Instant::now();
    pool.remove("w1");
    soon(session.sender().over()).await;
    assert!(removed.elapsed() < Duration::from_secs(1));
    assert_eq!(session.recv().await, None);
    host.connections.until(0).await;
}

#[tokio::test]
async fn many_sessions_that_come_and_go_leave_no_connection() {
    let host = Host::echo("w1", 1);
    let (pool, mut events) = pool(1);
    for _ in 0..200 {
        pool.insert("w1", endpoint(host.address));
        assert_eq!(next(&mut events).await, "w1 connected to 1");
        pool.remove("w1");
        assert_eq!(next(&mut events).await, "w1 lost: the worker was removed");
        assert_eq!(next(&mut events).await, "w1 removed");
    }
    host.connections.until(0).await;
    assert!(host.connections.most() <= 3, "{}", host.connections.most());
    assert_eq!(pool.counters(), Counters::default());
    soon(pool.close()).await;
}
