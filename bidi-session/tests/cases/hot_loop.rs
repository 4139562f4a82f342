//! A worker that accepts and hangs up, again and again.

use std::time::Duration;

use bidi_session::tonic::{Acceptor, FaultProxy};
use bidi_session::{Pool, PoolConfig};

use super::real::{Host, Node, WorkerSession, connect, connected, disconnected, endpoint};
use super::time::{Watch, size};

/// The shortest delays are half of 100, 200, .. 3,200 and then 5,000 ms: seven attempts fit
/// into 5 s, and 29 into 60 s. The short limit leaves room for one more, as the case does.
#[tokio::test]
async fn s14_a_worker_that_hangs_up_at_once_is_retried_ever_more_slowly() {
    let node = Node::new(Acceptor::new("w1", 1, 0), |_: WorkerSession| async {
        tokio::time::sleep(Duration::from_millis(10)).await;
    });
    let host = Host::start(node);
    let proxy = FaultProxy::start(host.address).unwrap();
    let (pool, mut events) = Pool::new(connect(), PoolConfig::new(1));
    let watch = Watch::start();
    pool.insert("w1", endpoint(proxy.address()));
    let (length, limit) = size((5, 8), (60, 40));
    let mut starts = Vec::new();
    let running = async {
        loop {
            connected(&mut events).await;
            starts.push(watch.elapsed());
            disconnected(&mut events).await;
        }
    };
    let over = tokio::time::timeout(Duration::from_secs(length), running).await;
    assert!(over.is_err());
    let attempts = proxy.counts().connections;
    assert!(attempts <= limit, "{attempts} attempts: {starts:?}");
    // The delay grows: the last third took longer than the rest.
    let third = starts.len() * 2 / 3;
    assert!(starts.len() >= 5, "{starts:?}");
    let last = starts[starts.len() - 1] - starts[third];
    assert!(last * 2 > starts[third] - starts[0], "{starts:?}");
    println!("S14: {attempts} attempts in {length} s: {starts:.1?}");
    println!("CASE S14 fault={attempts}");
}
