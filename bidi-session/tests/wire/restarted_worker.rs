//! Workers that die and come back, at the same place or at another one.

use std::collections::HashMap;
use std::net::{SocketAddr, TcpListener};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use bidi_session::tonic::Acceptor;
use bidi_session::{EventKind, PoolConfig, RoundError};
use tokio::time::Instant;
use tonic::transport::Endpoint;

use crate::support::{
    Accepting, Host, LONG, Pool, after_failures, barrier, connector, echo, endpoint, next, note,
    pool, soon,
};

fn restart(host: Host, worker: &str, incarnation: u64) -> Host {
    let address = host.address;
    drop(host);
    let listener = TcpListener::bind(address).unwrap();
    Host::start_on(
        listener,
        Accepting::new(Acceptor::new(worker, incarnation, 0), echo),
    )
}

#[tokio::test]
async fn an_idle_worker_is_up_again_by_itself_as_another_incarnation() {
    let host = Host::echo("w1", 1);
    let (pool, mut events) = pool(1);
    pool.insert("w1", endpoint(host.address));
    assert_eq!(next(&mut events).await, "w1 connected to 1");
    let host = restart(host, "w1", 2);
    let lost = next(&mut events).await;
    assert!(lost.starts_with("w1 lost: "), "{lost}");
    let connected = after_failures(&mut events, "w1 connected").await;
    assert_eq!(connected, "w1 connected to 2");
    pool.send("w1", note("still there")).await.unwrap();
    assert_eq!(next(&mut events).await, "w1 said still there");
    drop(host);
}

#[tokio::test]
async fn a_death_fails_the_round_at_once() {
    let mute = |worker| {
        let script = async |mut session: bidi_session::tonic::Session<_, _>| {
            while session.recv().await.is_some() {}
        };
        Host::start(Accepting::new(Acceptor::new(worker, 1, 0), script))
    };
    let (host, live) = (mute("w1"), mute("w2"));
    let (pool, _events) = pool(1);
    pool.insert("w1", endpoint(host.address));
    pool.insert("w2", endpoint(live.address));
    pool.ready(["w1", "w2"], LONG).await.unwrap();
    let round = pool.inject(1, ["w1", "w2"], |_| barrier(1)).unwrap();
    let killed = Instant::now();
    drop(host);
    let Err(RoundError::Failed { failures }) = round.collect(LONG).await else {
        panic!("the round must fail");
    };
    assert!(
        killed.elapsed() < Duration::from_secs(3),
        "{:?}",
        killed.elapsed()
    );
    assert_eq!(failures.len(), 1);
    assert_eq!(failures[0].0.as_str(), "w1");
}

#[tokio::test]
async fn one_without_a_share_in_the_round_dies_unnoticed_by_it() {
    let hosts = ["w1", "w2", "w3"].map(|worker| Host::echo(worker, 1));
    let (pool, mut events) = pool(1);
    for (worker, host) in ["w1", "w2", "w3"].iter().zip(&hosts) {
        pool.insert(*worker, endpoint(host.address));
    }
    pool.ready(["w1", "w2", "w3"], LONG).await.unwrap();
    let [_w1, _w2, w3] = hosts;
    let mut w3 = Some(w3);
    for epoch in 1..=30 {
        let round = pool
            .inject(epoch, ["w1", "w2"], |_| barrier(epoch))
            .unwrap();
        if epoch == 10 {
            drop(w3.take());
        }
        assert_eq!(round.collect(LONG).await.unwrap().len(), 2);
    }
    let mut lost = Vec::new();
    while lost.is_empty() {
        let event = next(&mut events).await;
        if event.contains(" lost: ") {
            lost.push(event);
        }
    }
    assert!(lost[0].starts_with("w3"), "{lost:?}");
}

#[tokio::test]
async fn one_that_accepts_and_hangs_up_is_dialed_ever_more_rarely() {
    let script = async |session: bidi_session::tonic::Session<_, _>| drop(session);
    let host = Host::start(Accepting::new(Acceptor::new("w1", 1, 0), script));
    let (pool, mut events) = pool(1);
    let start = Instant::now();
    pool.insert("w1", endpoint(host.address));
    for _ in 0..6 {
        assert_eq!(next(&mut events).await, "w1 connected to 1");
        let lost = next(&mut events).await;
        assert_eq!(lost, "w1 lost: the worker closed the stream");
    }
    // At least half of 100, 200, 400, 800 and 1600 ms came in between.
    let elapsed = start.elapsed();
    assert!(elapsed >= Duration::from_millis(1550), "{elapsed:?}");
    assert_eq!(pool.state("w1").unwrap().attempts, 6);
}

#[tokio::test]
async fn the_new_address_of_a_name_is_found_and_a_stranger_at_the_old_one_refused() {
    let old = Host::echo("w1", 1);
    let port = old.address.port();
    let real = Host::start_on(
        TcpListener::bind(("127.0.0.3", port)).unwrap(),
        Accepting::new(Acceptor::new("w1", 2, 0), echo),
    );
    let book: Arc<Mutex<SocketAddr>> = Arc::new(Mutex::new(old.address));
    let asked = Arc::new(Mutex::new(0));
    let (known, count) = (book.clone(), asked.clone());
    let connect = connector().with_resolver(move |host, _| {
        assert_eq!(host, "worker-1.test");
        *count.lock().unwrap() += 1;
        Ok(vec![*known.lock().unwrap()])
    });
    let config = PoolConfig::new(1).with_blocked_retry(Duration::from_millis(100));
    let (pool, mut events) = Pool::new(connect, config);
    let target = Endpoint::from_shared(format!("http://worker-1.test:{port}")).unwrap();
    pool.insert("w1", target);
    assert_eq!(next(&mut events).await, "w1 connected to 1");
    let old_address = old.address;
    drop(old);
    let _stranger = Host::start_on(
        TcpListener::bind(old_address).unwrap(),
        Accepting::new(Acceptor::new("w9", 1, 0), echo),
    );
    let lost = next(&mut events).await;
    assert!(lost.starts_with("w1 lost"), "{lost}");
    loop {
        let failed = next(&mut events).await;
        if failed == "w1 failed: another worker answers: w9" {
            break;
        }
        assert!(failed.starts_with("w1 failed"), "{failed}");
    }
    *book.lock().unwrap() = real.address;
    let connected = after_failures(&mut events, "w1 connected").await;
    assert_eq!(connected, "w1 connected to 2");
    // Asked anew at each attempt.
    let generation = pool.state("w1").unwrap().generation;
    assert_eq!(*asked.lock().unwrap(), generation);
}

#[tokio::test]
async fn what_looks_ready_takes_a_message_or_is_told_to_be_lost() {
    let names = ["w1", "w2", "w3", "w4", "w5"];
    let mut hosts: Vec<_> = names.iter().map(|name| Some(Host::echo(name, 1))).collect();
    let addresses: Vec<_> = hosts.iter().flatten().map(|host| host.address).collect();
    let (pool, mut events) = pool(1);
    for (name, address) in names.iter().zip(&addresses) {
        pool.insert(*name, endpoint(*address));
    }
    let mut random = fastrand::Rng::with_seed(11);
    let mut refused = Vec::new();
    let (mut sent, mut incarnation) = (0, 1);
    for turn in 0..300 {
        if turn % 15 == 14 {
            let index = random.usize(..names.len());
            incarnation += 1;
            hosts[index] = match hosts[index].take() {
                Some(host) => {
                    drop(host);
                    None
                }
                None => Some(Host::start_on(
                    TcpListener::bind(addresses[index]).unwrap(),
                    Accepting::new(Acceptor::new(names[index], incarnation, 0), echo),
                )),
            };
        }
        let name = names[random.usize(..names.len())];
        if let Some(generation) = pool.state(name).unwrap().session() {
            match pool.try_send(name, note("x")) {
                Ok(()) => sent += 1,
                Err(_) => refused.push((name, generation)),
            }
        }
        // Lets the other runtimes and the pool's tasks go on between two turns.
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    assert!(sent > 50, "{sent}");
    drop(hosts);
    // Every session that refused a message ended, and each ended once.
    let mut ended: HashMap<(String, u64), u32> = HashMap::new();
    pool.close().await;
    while let Some(event) = soon(events.recv()).await {
        if matches!(event.kind, EventKind::Disconnected { .. }) {
            *ended
                .entry((event.worker.to_string(), event.generation))
                .or_default() += 1;
        }
    }
    assert!(ended.values().all(|count| *count == 1), "{ended:?}");
    for (name, generation) in refused {
        assert!(ended.contains_key(&(name.to_owned(), generation)), "{name}");
    }
}
