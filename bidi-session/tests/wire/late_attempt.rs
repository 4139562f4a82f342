//! Attempts that arrive late, and sessions whose end never arrives.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use bidi_session::tonic::Acceptor;
use bidi_session::{EventKind, Pool, PoolConfig};
use tokio::time::Instant;

use super::raw::{call, hello};
use super::real::{
    AT_ONCE, Host, Node, WorkerSession, command, connect, connected, disconnected, endpoint,
    failed_attempt, next, note, pool, soon, within,
};
use super::tap::Tap;

#[tokio::test]
async fn an_attempt_that_is_held_on_its_way_changes_nothing_when_it_arrives() {
    let node = Node::echo("w1", 1);
    let host = Host::start(node.clone());
    let tap = Tap::start(host.address).await;
    let held = tap.hold();
    let patience = Duration::from_millis(300);
    let config = PoolConfig::new(1).with_attempt_timeout(patience);
    let (pool, mut events) = Pool::new(connect(), config);
    pool.insert("w1", endpoint(tap.address));
    let text = failed_attempt(&mut events).await;
    assert!(text.contains("no session within"), "{text}");
    let before = tap.connections();
    tap.pass();
    let (generation, _) = connected(&mut events).await;
    assert_eq!(node.calls(), 1, "those that are held have not arrived");
    held.release();
    // Some may have been cut before they had sent their call.
    while node.calls() < 2 {
        tokio::time::sleep(Duration::from_millis(1)).await;
    }
    pool.try_send("w1", command("still here"))
        .expect("it is up");
    let told = next(&mut events).await;
    assert_eq!(told.kind, EventKind::Message(note("still here")));
    assert_eq!(told.generation, generation);
    assert_eq!(
        pool.state("w1").expect("in the pool").session(),
        Some(generation)
    );
    assert!(before >= 1);
    println!("CASE late-attempt fault={}", node.calls() - 1);
}

#[tokio::test]
async fn a_worker_that_is_removed_and_inserted_again_connects_at_once() {
    let node = Node::echo("w1", 1);
    let host = Host::start(node.clone());
    let (pool, mut events) = pool(1);
    pool.insert("w1", host.endpoint());
    let (mut last, _) = connected(&mut events).await;
    let mut slowest = Duration::ZERO;
    for _ in 0..20 {
        let start = Instant::now();
        pool.remove("w1");
        pool.insert("w1", host.endpoint());
        assert_eq!(disconnected(&mut events).await.0, last);
        assert_eq!(next(&mut events).await.kind, EventKind::Removed);
        let (generation, _) = within(AT_ONCE, connected(&mut events)).await;
        assert!(generation > last);
        last = generation;
        slowest = slowest.max(start.elapsed());
    }
    println!("removed, inserted and up again within {slowest:?}, of 20 times");
    assert_eq!(node.calls(), 21, "none of them was refused");
}

/// Counts sessions that live, began and ended.
#[derive(Default)]
struct Count {
    live: AtomicU32,
    ended: AtomicU32,
    overlaps: AtomicU32,
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_session_ends_before_its_successor_is_welcomed() {
    let is_soak = std::env::var_os("SOAK").is_some();
    let runs = if is_soak { 1000 } else { 50 };
    let count = Arc::new(Count::default());
    let counting = count.clone();
    let node = Node::new(Acceptor::new("w1", 1, 0), move |session: WorkerSession| {
        let count = counting.clone();
        async move {
            let others = count.live.fetch_add(1, Ordering::SeqCst);
            count.overlaps.fetch_add(others, Ordering::SeqCst);
            session.sender().over().await;
            // Winds up for a while, now and then a long one.
            let micros = session.generation() % 5 * 500;
            tokio::time::sleep(Duration::from_micros(micros)).await;
            count.ended.fetch_add(1, Ordering::SeqCst);
            count.live.fetch_sub(1, Ordering::SeqCst);
        }
    });
    let host = Host::start(node);
    // Kept open, so that nothing tells the worker of their end.
    let mut half_open = std::collections::VecDeque::new();
    for run in 0..runs {
        let line = soon(call(host.address, &hello(1, 1, u64::from(run) + 1))).await;
        half_open.push_back(line.expect("admitted"));
        assert_eq!(
            count.ended.load(Ordering::SeqCst),
            run,
            "welcomed before the end"
        );
        if half_open.len() > 20 {
            half_open.pop_front();
        }
    }
    assert_eq!(count.overlaps.load(Ordering::SeqCst), 0);
    println!("CASE takeover fault={}", count.ended.load(Ordering::SeqCst));
}
