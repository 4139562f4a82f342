//! Connections and tasks that stay when their session is over.
#![cfg(feature = "tonic")]

mod real;

use std::time::Duration;

use tokio::time::Instant;

use real::{AT_ONCE, Host, Node, connected, pool, soon};

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
