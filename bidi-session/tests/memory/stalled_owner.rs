//! Owners that do not take their events for a while, and workers that flood them.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use bidi_session::memory::{Acceptor, Network};
use bidi_session::{EventKind, Phase};
use tokio::time::Instant;

use crate::rig::{WorkerSession, millis, next, note, pool, told};

#[tokio::test(start_paused = true)]
async fn an_owner_away_for_60_s_holds_its_worker_up_and_loses_nothing() {
    let network = Network::new(1);
    let sent = Arc::new(AtomicU64::new(0));
    let count = sent.clone();
    network.serve(
        "a",
        Acceptor::new("a", 1, 0),
        move |session: WorkerSession| {
            let sent = count.clone();
            async move {
                while session
                    .send(note(sent.load(Ordering::SeqCst)))
                    .await
                    .is_ok()
                {
                    sent.fetch_add(1, Ordering::SeqCst);
                }
            }
        },
    );
    let (pool, mut events) = pool(&network, 1);
    pool.insert("a", "a".to_owned());
    tokio::time::sleep(millis(60_000)).await;
    // A mailbox and an outbox full, and at most what one read takes.
    let held = sent.load(Ordering::SeqCst);
    assert!((512..=512 + 64).contains(&held), "{held}");
    tokio::time::sleep(millis(60_000)).await;
    assert_eq!(sent.load(Ordering::SeqCst), held);
    let state = pool.state("a").unwrap();
    assert_eq!((state.phase, state.attempts), (Phase::Up, 0));
    assert_eq!(told(&mut events).await, "a connected");
    for tag in 0..10_000 {
        assert_eq!(told(&mut events).await, format!("a said {tag}"));
    }
}

/// The delay is told in events that came first, since seconds tell of the machine.
#[tokio::test]
async fn a_flood_delays_99_others_by_a_turn_of_each() {
    let network = Network::new(1);
    let taken = Arc::new(AtomicU64::new(0));
    network.serve(
        "w0",
        Acceptor::new("w0", 1, 0),
        |session: WorkerSession| async move {
            while session.send(note(u64::MAX)).await.is_ok() {
                tokio::task::yield_now().await;
            }
        },
    );
    for number in 1..100 {
        let (name, taken) = (format!("w{number}"), taken.clone());
        let acceptor = Acceptor::new(name.as_str(), 1, 0);
        network.serve(name, acceptor, move |session: WorkerSession| {
            let taken = taken.clone();
            async move {
                // Not all in the same moment.
                tokio::time::sleep(millis(number)).await;
                while session
                    .send(note(taken.load(Ordering::SeqCst)))
                    .await
                    .is_ok()
                {
                    tokio::time::sleep(millis(100)).await;
                }
            }
        });
    }
    let (pool, mut events) = pool(&network, 1);
    for number in 0..100 {
        let name = format!("w{number}");
        pool.insert(name.as_str(), name.clone());
    }
    let start = Instant::now();
    let (mut before, mut floods) = (Vec::new(), 0_u64);
    while before.len() < 1_000 {
        let event = next(&mut events).await;
        let now = taken.fetch_add(1, Ordering::SeqCst);
        match event.kind {
            EventKind::Message(word) if word.tag == u64::MAX => floods += 1,
            EventKind::Message(word) => before.push(now - word.tag),
            _ => {}
        }
    }
    before.sort_unstable();
    let (p99, most) = (before[989], before[999]);
    println!(
        "{floods} of the flood in {:?}; p99 {p99}, most {most} events",
        start.elapsed()
    );
    // A turn of the flood has 16 events, and the owner may hold a batch of each.
    assert!(floods > 2_000, "{floods}: that is no flood");
    assert!(p99 <= 99 + 32, "{p99}");
}
