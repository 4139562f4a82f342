//! Workers that look ready and are not.
#![cfg(feature = "tonic")]

mod real;

use std::collections::HashMap;
use std::time::Duration;

use bidi_session::tonic::Acceptor;
use bidi_session::{EventKind, PoolConfig};

use real::{Host, Node, command, echo, pool_with, soon};

const WORKERS: [&str; 5] = ["w1", "w2", "w3", "w4", "w5"];

fn node(worker: &str, incarnation: u64) -> Node {
    Node::new(Acceptor::new(worker, incarnation, 0), echo)
}

#[tokio::test]
async fn a_session_that_refuses_a_message_is_told_to_be_over_exactly_once() {
    let hosts = WORKERS.map(|worker| Host::start(node(worker, 1)));
    let addresses = hosts.each_ref().map(|host| host.address);
    let mut hosts = hosts.map(Some);
    let (pool, mut events) = pool_with(PoolConfig::new(1));
    for (worker, address) in WORKERS.iter().zip(addresses) {
        pool.insert(*worker, real::endpoint(address));
    }
    let mut random = fastrand::Rng::with_seed(11);
    let (mut sent, mut deaths, mut refused) = (0, 0, Vec::new());
    for turn in 1..=400 {
        if turn % 15 == 0 {
            let index = random.usize(..WORKERS.len());
            hosts[index] = match hosts[index].take() {
                Some(host) => {
                    host.kill();
                    deaths += 1;
                    None
                }
                None => Some(Host::start_at(addresses[index], node(WORKERS[index], turn))),
            };
        }
        let worker = WORKERS[random.usize(..WORKERS.len())];
        if let Some(generation) = pool.state(worker).unwrap().session() {
            match pool.try_send(worker, command("x")) {
                Ok(()) => sent += 1,
                Err(_) => refused.push((worker.to_owned(), generation)),
            }
        }
        // Spreads the turns over the time that deaths and attempts take.
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    assert!(sent > 50 && deaths > 5, "{sent} sent, {deaths} deaths");
    pool.close().await;
    let mut ends: HashMap<(String, u64), u32> = HashMap::new();
    while let Some(event) = soon(events.recv()).await {
        if matches!(event.kind, EventKind::Disconnected { .. }) {
            let session = (event.worker.to_string(), event.generation);
            *ends.entry(session).or_default() += 1;
        }
    }
    assert!(ends.values().all(|count| *count == 1), "{ends:?}");
    for session in refused {
        assert!(ends.contains_key(&session), "{session:?}");
    }
}
