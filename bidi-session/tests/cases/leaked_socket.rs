//! Sockets, tasks and memory that stay when their session is over.

use std::net::SocketAddr;
use std::time::Duration;

use bidi_session::tonic::{Acceptor, FaultProxy};
use bidi_session::{EventKind, Phase, Pool, PoolConfig};
use tokio::runtime::Handle;

use super::child::{Child, Part};
use super::real::{
    self, Host, LONG, Node, barrier, connected, endpoint, next, pool, soon, unused_address,
};
use super::time::{Watch, size};

const UP: usize = 50;

/// Counts this machine's established connections to these ports, as the kernel tells them.
fn established(ports: &[u16]) -> usize {
    let table = std::fs::read_to_string("/proc/self/net/tcp").expect("this test needs Linux");
    let is_live = |line: &&str| {
        let fields: Vec<&str> = line.split_whitespace().collect();
        let port = fields[2].rsplit(':').next().unwrap();
        let port = u16::from_str_radix(port, 16).unwrap();
        fields[3] == "01" && ports.contains(&port)
    };
    table.lines().skip(1).filter(is_live).count()
}

/// Waits until there are so many connections to these ports.
///
/// One reading proves nothing: the kernel's table changes while it is read, and then
/// lines are missed or told twice.
async fn until(ports: &[u16], expected: usize) -> usize {
    let reached = async {
        while established(ports) != expected {
            // The kernel tells of no change.
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    };
    soon(reached).await;
    expected
}

#[tokio::test]
async fn s11_what_is_removed_or_dropped_closes_its_socket_and_ends_its_tasks() {
    let tasks = || Handle::current().metrics().num_alive_tasks();
    let base = tasks();
    let (node, mut sessions) = Node::played(Acceptor::new("w", 1, 0));
    let host = Host::start(node);
    let port = host.address.port();
    let (pool, mut events) = pool(1);
    pool.insert("w", host.endpoint());
    let (first, _) = connected(&mut events).await;
    let mut session = soon(sessions.recv()).await.unwrap();
    let mut closed = until(&[port], 1).await;
    let watch = Watch::start();
    pool.remove("w");
    pool.insert("w", host.endpoint());
    soon(session.sender().over()).await;
    watch.within(Duration::from_secs(1), "the end at the worker");
    assert!(soon(session.recv()).await.is_none());
    let second = soon(sessions.recv()).await.unwrap();
    assert!(
        second.generation() > first,
        "the same id has a fresh session"
    );

    let names: Vec<String> = (0..UP).map(|index| format!("w{index}")).collect();
    let addresses = names.iter().map(|name| host.also(Node::echo(name, 1)));
    let addresses: Vec<SocketAddr> = addresses.collect();
    let ports: Vec<u16> = addresses.iter().map(SocketAddr::port).collect();
    for (name, address) in names.iter().zip(addresses) {
        pool.insert(name.as_str(), endpoint(address));
    }
    let dead = unused_address();
    for index in 0..UP {
        pool.insert(format!("dead{index}"), endpoint(dead));
    }
    pool.ready(&names, LONG).await.unwrap();
    let dead = |index| pool.state(format!("dead{index}")).unwrap();
    assert!((0..UP).all(|index| dead(index).phase != Phase::Up));
    closed += until(&ports, UP).await;
    let watch = Watch::start();
    drop(pool);
    until(&[&ports[..], &[port]].concat(), 0).await;
    drop((events, second, session));
    soon(async {
        while tasks() > base {
            tokio::task::yield_now().await;
        }
    })
    .await;
    let gone = watch.within(Duration::from_secs(1), "to close all and end all tasks");
    println!("S11: all gone after {gone:.2?}");
    println!("CASE S11 fault={closed}");
}

/// What a process has, as the kernel and its runtime tell it.
#[derive(Clone, Copy, Debug)]
struct Held {
    files: usize,
    tasks: usize,
    memory_kib: usize,
}

fn held() -> Held {
    let status = std::fs::read_to_string("/proc/self/status").unwrap();
    let memory = status.lines().find(|line| line.starts_with("VmRSS:"));
    let memory_kib = memory.unwrap().split_whitespace().nth(1).unwrap();
    Held {
        files: std::fs::read_dir("/proc/self/fd").unwrap().count(),
        tasks: Handle::current().metrics().num_alive_tasks(),
        memory_kib: memory_kib.parse().unwrap(),
    }
}

#[tokio::test]
async fn reconnects_leak_no_file_task_or_memory() {
    let any = SocketAddr::from(([127, 0, 0, 1], 0));
    let mut process = Child::start(Part::Reconnecting, &[("w1", any)]);
    let line = process.line().await;
    let resets: u64 = line.strip_prefix("resets ").unwrap().parse().unwrap();
    println!("{}", process.line().await);
    assert!(resets > 0);
    println!("CASE reconnects fault={resets}");
}

/// Workers that reconnect at the same time: each one waits for 100 ms between attempts.
const RECONNECTING: u64 = 10;

/// In a process of its own, where nothing else takes memory.
pub(crate) async fn play_reconnecting() -> (u64, String) {
    let names: Vec<String> = (0..RECONNECTING).map(|index| format!("w{index}")).collect();
    let host = Host::start(Node::echo("none", 1));
    // A session that lived at all is healthy, so that delays do not grow.
    let config = PoolConfig::new(1).with_stable_after(Duration::ZERO);
    let (pool, mut events) = Pool::new(real::connect(), config.with_seed(7));
    let mut proxies = Vec::new();
    for name in &names {
        let proxy = FaultProxy::start(host.also(Node::echo(name, 1))).unwrap();
        pool.insert(name.as_str(), endpoint(proxy.address()));
        proxies.push(proxy);
    }
    let rounds = size(200, 2000) / RECONNECTING;
    let mut base = None;
    let mut ended = 0;
    for round in 0..=rounds {
        let mut began = 0;
        while began < names.len() {
            match next(&mut events).await.kind {
                EventKind::Connected { .. } => began += 1,
                EventKind::Disconnected { reason, .. } => {
                    let reason = reason.to_string();
                    assert!(!reason.contains("too_many_internal_resets"), "{reason}");
                    ended += 1;
                }
                kind => panic!("{kind:?}"),
            }
        }
        assert_eq!(ended, round * RECONNECTING);
        let injected = pool.inject(round + 1, &names, |_| barrier(round + 1));
        soon(injected.unwrap().collect(LONG)).await.unwrap();
        if round == rounds / 4 {
            base = Some(held());
        }
        if round == rounds {
            break;
        }
        proxies.iter().for_each(FaultProxy::reset);
    }
    let (base, end) = (base.unwrap(), held());
    // Files and tasks may be about to end.
    assert!(end.files <= base.files + 4, "{base:?} {end:?}");
    assert!(end.tasks <= base.tasks + 4, "{base:?} {end:?}");
    let is_flat = end.memory_kib * 100 <= base.memory_kib * 105;
    assert!(is_flat, "{base:?} {end:?}");
    let resets = proxies.iter().map(|proxy| proxy.counts().resets).sum();
    (resets, format!("{base:?} then {end:?}"))
}
