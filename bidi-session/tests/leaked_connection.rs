//! Connections and tasks that stay when their session is over.
#![cfg(feature = "tonic")]

mod real;

use std::net::SocketAddr;
use std::time::Duration;

use bidi_session::Phase;
use bidi_session::tonic::Acceptor;
use tokio::time::Instant;

use real::{AT_ONCE, Host, Node, connected, endpoint, pool, soon, unused_address, within};

/// Counts this process's established connections to a port, as the kernel tells them.
fn established(port: u16) -> usize {
    let table = std::fs::read_to_string("/proc/self/net/tcp").expect("this test needs Linux");
    let remote = format!(":{port:04X}");
    let is_live = |line: &&str| {
        let fields: Vec<&str> = line.split_whitespace().collect();
        fields.len() > 3 && fields[2].ends_with(&remote) && fields[3] == "01"
    };
    table.lines().filter(is_live).count()
}

async fn all_closed(ports: &[u16]) {
    until(ports, 0).await;
}

/// Waits until there is this number of connections to each port.
///
/// One reading proves nothing: the kernel's table changes while it is read, and then
/// lines are missed or told twice.
async fn until(ports: &[u16], expected: usize) {
    let start = Instant::now();
    while ports.iter().any(|port| established(*port) != expected) {
        assert!(start.elapsed() < AT_ONCE, "not {expected} to each port");
        // The kernel tells of no change.
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
}

#[tokio::test]
async fn removing_a_worker_closes_its_socket_and_the_id_is_free_at_once() {
    let (node, mut sessions) = Node::played(Acceptor::new("w1", 1, 0));
    let host = Host::start(node);
    let port = host.address.port();
    let (pool, mut events) = pool(1);
    pool.insert("w1", host.endpoint());
    let (first, _) = connected(&mut events).await;
    let mut session = soon(sessions.recv()).await.unwrap();
    until(&[port], 1).await;
    pool.remove("w1");
    pool.insert("w1", host.endpoint());
    within(AT_ONCE, session.sender().over()).await;
    assert!(soon(session.recv()).await.is_none());
    let second = soon(sessions.recv()).await.unwrap();
    assert!(second.generation() > first);
    pool.remove("w1");
    all_closed(&[port]).await;
    println!("CASE S11 fault={first}");
}

#[tokio::test]
async fn dropping_a_pool_closes_everything_it_opened() {
    let metrics = tokio::runtime::Handle::current().metrics();
    let before = metrics.num_alive_tasks();
    let (pool, events) = pool(1);
    let names: Vec<String> = (0..50).map(|index| format!("w{index}")).collect();
    let host = Host::start(Node::echo("unused", 1));
    let addresses: Vec<SocketAddr> = names
        .iter()
        .map(|name| host.also(Node::echo(name, 1)))
        .collect();
    let ports: Vec<u16> = addresses.iter().map(SocketAddr::port).collect();
    for (name, address) in names.iter().zip(&addresses) {
        pool.insert(name.as_str(), endpoint(*address));
    }
    let dead: SocketAddr = unused_address();
    for index in 0..50 {
        pool.insert(format!("dead{index}"), endpoint(dead));
    }
    pool.ready(&names, real::LONG).await.unwrap();
    until(&ports, 1).await;
    let waiting = (0..50).filter(|index| {
        let state = pool.state(format!("dead{index}")).unwrap();
        state.phase != Phase::Up
    });
    assert_eq!(waiting.count(), 50);
    drop(pool);
    all_closed(&ports).await;
    drop(events);
    let start = Instant::now();
    while metrics.num_alive_tasks() > before {
        assert!(start.elapsed() < AT_ONCE, "a task stayed");
        tokio::task::yield_now().await;
    }
}

#[tokio::test]
async fn many_sessions_one_after_the_other_leave_nothing() {
    let host = Host::start(Node::echo("w1", 1));
    let (pool, mut events) = pool(1);
    let descriptors = || std::fs::read_dir("/proc/self/fd").unwrap().count();
    let metrics = tokio::runtime::Handle::current().metrics();
    let mut base = None;
    for round in 0..500 {
        pool.insert("w1", host.endpoint());
        connected(&mut events).await;
        pool.remove("w1");
        while !matches!(
            soon(events.recv()).await.unwrap().kind,
            bidi_session::EventKind::Removed
        ) {}
        if round == 100 {
            all_closed(&[host.address.port()]).await;
            base = Some((descriptors(), metrics.num_alive_tasks()));
        }
    }
    all_closed(&[host.address.port()]).await;
    let (base_files, base_tasks) = base.unwrap();
    assert!(
        descriptors() <= base_files + 5,
        "{} > {base_files}",
        descriptors()
    );
    assert!(metrics.num_alive_tasks() <= base_tasks + 5);
}
