//! Messages that nobody takes.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use bidi_session::tonic::{Acceptor, Session};
use bidi_session::{PoolConfig, RoundError};
use tokio::sync::Notify;

use crate::support::{
    Accepting, Command, Host, LONG, Pool, Reply, barrier, connector, endpoint, next, pool, soon,
    told,
};

const CHUNK_BYTES: usize = 20 * 1024;
const CHUNKS: usize = 1000;

#[tokio::test]
async fn twenty_megabytes_wait_at_the_worker_and_hold_up_nobody() {
    let sent = Arc::new(AtomicUsize::new(0));
    let flood = |sent: Arc<AtomicUsize>| {
        move |session: Session<Command, Reply>| {
            let sent = sent.clone();
            async move {
                for number in 0..CHUNKS {
                    let mut body = vec![b'.'; CHUNK_BYTES];
                    body[..4].copy_from_slice(format!("{number:04}").as_bytes());
                    session.send(told(body)).await.unwrap();
                    sent.fetch_add(1, Ordering::SeqCst);
                }
            }
        }
    };
    let script = flood(sent.clone());
    let flooding = Host::start(Accepting::new(Acceptor::new("w1", 1, 0), script));
    let others: Vec<_> = ["w2", "w3", "w4"]
        .map(|name| (name, Host::echo(name, 1)))
        .into();
    let (pool, mut events) = Pool::new(connector(), PoolConfig::new(1).with_inbox(16));
    pool.insert("w1", endpoint(flooding.address));
    for (name, host) in &others {
        pool.insert(*name, endpoint(host.address));
    }
    pool.ready(["w1", "w2", "w3", "w4"], LONG).await.unwrap();
    for epoch in 1..=200 {
        let round = pool.inject(epoch, ["w2", "w3", "w4"], |_| barrier(epoch));
        round
            .unwrap()
            .collect(Duration::from_secs(2))
            .await
            .unwrap();
    }
    // The worker is held back: queues and windows hold a part of it only.
    let held = sent.load(Ordering::SeqCst);
    assert!(held > 16 && held < CHUNKS, "{held}");
    let mut expected = 0;
    while expected < CHUNKS {
        let event = next(&mut events).await;
        if let Some(body) = event.strip_prefix("w1 said ") {
            assert!(body.starts_with(&format!("{expected:04}")));
            expected += 1;
        }
    }
    // It had returned by then: what was on its way has come first.
    while next(&mut events).await != "w1 lost: the worker closed the stream" {}
}

/// A worker that says more than anybody takes, and then waits to be killed.
fn talker(said: Arc<Notify>) -> Host {
    let script = move |session: Session<Command, Reply>| {
        let said = said.clone();
        async move {
            for number in 0..40 {
                session.send(told(number.to_string())).await.unwrap();
            }
            said.notify_one();
            std::future::pending().await
        }
    };
    Host::start(Accepting::new(Acceptor::new("w1", 1, 0), script))
}

#[tokio::test]
async fn the_death_of_a_worker_is_told_although_nobody_takes_its_messages() {
    let said = Arc::new(Notify::new());
    let host = talker(said.clone());
    let (pool, mut events) = Pool::new(connector(), PoolConfig::new(1).with_inbox(4));
    pool.insert("w1", endpoint(host.address));
    pool.ready(["w1"], LONG).await.unwrap();
    let round = pool.inject(1, ["w1"], |_| barrier(1)).unwrap();
    soon(said.notified()).await;
    drop(host);
    // Its mailbox is full, and still the round fails and the worker is not up.
    let failed = round.collect(Duration::from_secs(5)).await;
    assert!(
        matches!(failed, Err(RoundError::Failed { .. })),
        "{failed:?}"
    );
    assert_eq!(pool.state("w1").unwrap().session(), None);
    // What had arrived comes first, in order and once, and then the end.
    assert_eq!(next(&mut events).await, "w1 connected to 1");
    for number in 0..40 {
        assert_eq!(next(&mut events).await, format!("w1 said {number}"));
    }
    let lost = next(&mut events).await;
    assert!(lost.starts_with("w1 lost: "), "{lost}");
}

#[tokio::test]
async fn dropped_events_are_discarded_and_counted() {
    let said = Arc::new(Notify::new());
    let host = talker(said.clone());
    let (pool, events) = pool(1);
    drop(events);
    pool.insert("w1", endpoint(host.address));
    soon(said.notified()).await;
    drop(host);
    let gone = async {
        while pool.state("w1").unwrap().session().is_some() || pool.counters().discarded < 40 {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    };
    soon(gone).await;
    assert_eq!(pool.counters().discarded, 40);
}
