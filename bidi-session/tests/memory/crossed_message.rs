//! Messages and ends of one session that reach another one.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use bidi_session::Direction;
use bidi_session::EventKind;
use bidi_session::memory::{Acceptor, Network};
use tokio::time::Instant;

use crate::grammar::Grammar;
use crate::rig::{LONG, WorkerSession, echo, is_soak, millis, next, note, pool, told};

#[tokio::test(start_paused = true)]
async fn no_message_crosses_a_thousand_reconnects() {
    let messages = if is_soak() { 1_000_000 } else { 100_000 };
    let network = Network::new(1);
    let (heard, crossed) = (Arc::new(AtomicU64::new(0)), Arc::new(AtomicU64::new(0)));
    let counts = (heard.clone(), crossed.clone());
    network.serve(
        "a",
        Acceptor::new("a", 1, 0),
        move |mut session: WorkerSession| {
            let (heard, crossed) = counts.clone();
            async move {
                while let Some(word) = session.recv().await {
                    heard.fetch_add(1, Ordering::SeqCst);
                    if word.tag >> 32 != session.generation() {
                        crossed.fetch_add(1, Ordering::SeqCst);
                    }
                    if session.send(word).await.is_err() {
                        break;
                    }
                }
            }
        },
    );
    let (pool, mut events) = pool(&network, 1);
    pool.insert("a", "a".to_owned());
    let mut random = fastrand::Rng::with_seed(1);
    let (mut grammar, mut sessions, mut sent) = (Grammar::default(), 0, 0);
    while sessions < 1_000 {
        pool.ready(["a"], LONG).await.unwrap();
        let generation = pool.state("a").unwrap().session().unwrap();
        sessions += 1;
        // Breaks anywhere within what is sent now.
        let most = messages / 1_000;
        let ways = [Direction::ToWorker, Direction::FromWorker];
        network.reset_after("a", ways[random.usize(..2)], random.u64(..most));
        for serial in 0..most {
            let message = note(generation << 32 | serial);
            if pool.send("a", message).await.is_err() {
                break;
            }
            sent += 1;
            while let Some(event) = events.try_recv() {
                grammar.check(&event);
            }
        }
        loop {
            let event = next(&mut events).await;
            grammar.check(&event);
            if matches!(event.kind, EventKind::Disconnected { .. }) {
                break;
            }
        }
        network.heal("a");
    }
    assert_eq!(crossed.load(Ordering::SeqCst), 0);
    let (heard, counts) = (heard.load(Ordering::SeqCst), network.counts("a"));
    println!("{sent} sent, {heard} heard, {counts:?}");
    assert_eq!(counts.resets, 1_000);
    assert!(heard > messages / 4 && heard < sent, "{heard} of {sent}");
}

#[tokio::test(start_paused = true)]
async fn an_end_that_arrives_30_s_late_does_not_touch_the_next_session() {
    for direction in [Direction::ToWorker, Direction::FromWorker] {
        let network = Network::new(1);
        let acceptor = Acceptor::new("a", 1, 0);
        let over = Arc::new(AtomicU64::new(0));
        for address in ["old", "new"] {
            let over = over.clone();
            network.serve(address, acceptor.clone(), move |session: WorkerSession| {
                let over = over.clone();
                async move {
                    echo(session).await;
                    over.fetch_add(1, Ordering::SeqCst);
                }
            });
        }
        let (pool, mut events) = pool(&network, 1);
        pool.insert("a", "old".to_owned());
        assert_eq!(told(&mut events).await, "a connected");
        network.delay("old", direction, millis(30_000)..=millis(30_000));
        // The pool leaves, and the worker, which is told by the new session only.
        pool.insert("a", "new".to_owned());
        assert_eq!(
            told(&mut events).await,
            "a lost: the worker has another target"
        );
        assert_eq!(told(&mut events).await, "a connected");
        let start = Instant::now();
        while start.elapsed() < millis(40_000) {
            pool.try_send("a", note(1)).unwrap();
            assert_eq!(told(&mut events).await, "a said 1");
            tokio::time::sleep(millis(500)).await;
        }
        assert_eq!(over.load(Ordering::SeqCst), 1);
        assert_eq!(events.try_recv(), None);
    }
}
