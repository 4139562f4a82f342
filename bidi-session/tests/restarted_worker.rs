//! Workers that restart, move or hang up again and again.
#![cfg(feature = "tonic")]

mod real;

use std::time::Duration;

use bidi_session::tonic::Acceptor;
use bidi_session::{EventKind, Pool, PoolConfig};
use tokio::time::Instant;

use real::{
    AT_ONCE, Host, Node, WorkerSession, command, connect, connected, disconnected, next, note,
    pool, soon, within,
};

#[tokio::test]
async fn a_worker_without_work_is_up_again_by_itself_after_its_restart() {
    let (pool, mut events) = pool(1);
    let busy: Vec<Host> = ["w1", "w2"]
        .map(|name| Host::start(Node::echo(name, 1)))
        .into();
    for (name, host) in ["w1", "w2"].iter().zip(&busy) {
        pool.insert(*name, host.endpoint());
        connected(&mut events).await;
    }
    let idle = Host::start(Node::echo("w3", 1));
    let address = idle.address;
    pool.insert("w3", idle.endpoint());
    let (first, incarnation) = connected(&mut events).await;
    assert_eq!(incarnation, Some(1));
    idle.kill();
    let (ended, reason) = within(AT_ONCE, disconnected(&mut events)).await;
    assert_eq!(ended, first);
    assert!(!reason.is_empty());
    let _again = Host::start_at(address, Node::echo("w3", 2));
    let (second, incarnation) = within(AT_ONCE, connected(&mut events)).await;
    assert!(second > first);
    assert_eq!(incarnation, Some(2), "the new life shows itself");
    pool.try_send("w3", command("hello")).unwrap();
    assert_eq!(
        next(&mut events).await.kind,
        EventKind::Message(note("hello"))
    );
    println!("CASE S13 fault={ended}");
}

#[tokio::test]
async fn a_worker_that_hangs_up_at_once_is_retried_ever_more_slowly() {
    let node = Node::new(Acceptor::new("w1", 1, 0), |_: WorkerSession| async {
        tokio::time::sleep(Duration::from_millis(10)).await;
    });
    let host = Host::start(node.clone());
    let (pool, mut events) = Pool::new(connect(), PoolConfig::new(1));
    let start = Instant::now();
    pool.insert("w1", host.endpoint());
    let mut last = start;
    let mut gaps = Vec::new();
    for _ in 0..6 {
        connected(&mut events).await;
        gaps.push(last.elapsed());
        last = Instant::now();
        disconnected(&mut events).await;
    }
    // At least half of 100 + 200 + 400 + 800 ms, however fast the sessions end; the
    // first attempt and the first after it may come at once.
    assert!(start.elapsed() > Duration::from_millis(750), "{gaps:?}");
    assert!(gaps[5] > gaps[3], "{gaps:?}");
    assert!(node.calls() <= 7);
    println!("CASE S14 fault={}", node.calls());
}

#[tokio::test]
async fn a_worker_that_moves_leaves_its_old_address_at_once() {
    let (node, mut sessions) = Node::played(Acceptor::new("w1", 1, 0));
    let old = Host::start(node);
    let new = Host::start(Node::echo("w1", 2));
    let (pool, mut events) = pool(1);
    pool.insert("w1", old.endpoint());
    let (first, _) = connected(&mut events).await;
    let session = soon(sessions.recv()).await.unwrap();
    pool.insert("w1", old.endpoint());
    assert_eq!(
        pool.state("w1").unwrap().session(),
        Some(first),
        "the same place: no-op"
    );
    pool.insert("w1", new.endpoint());
    within(AT_ONCE, session.sender().over()).await;
    assert_eq!(disconnected(&mut events).await.0, first);
    assert_eq!(connected(&mut events).await.1, Some(2));
}

#[tokio::test]
async fn no_message_of_one_session_reaches_the_next() {
    let (node, mut sessions) = Node::played(Acceptor::new("w1", 1, 0));
    let host = Host::start(node.clone());
    let address = host.address;
    let (pool, mut events) = pool(1);
    pool.insert("w1", host.endpoint());
    let mut host = Some(host);
    let mut lost = 0;
    for round in 0..20_u32 {
        let (generation, _) = connected(&mut events).await;
        let mut session = soon(sessions.recv()).await.unwrap();
        assert_eq!(session.generation(), generation);
        for _ in 0..100 {
            pool.try_send("w1", command(round.to_string())).unwrap();
        }
        let read = round % 7;
        for _ in 0..read {
            let command = soon(session.recv()).await.unwrap();
            assert_eq!(command.body, round.to_string().into_bytes());
        }
        lost += 100 - read;
        if round % 2 == 0 {
            node.acceptor.reset("", 0);
        } else {
            host.take().unwrap().kill();
            host = Some(Host::start_at(address, node.clone()));
        }
        assert_eq!(disconnected(&mut events).await.0, generation);
    }
    println!("CASE lost-with-their-session fault={lost}");
}
