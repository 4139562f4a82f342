//! Inserts that cost their caller time, and attempts that come too often or too rarely.

use bidi_session::memory::{Acceptor, Network};
use bidi_session::{EventKind, OpenClass};
use tokio::time::Instant;

use crate::rig::{WorkerSession, echo, millis, next, pool, told};

#[tokio::test]
async fn inserting_10_000_absent_workers_dials_nothing_meanwhile_and_each_takes_less_than_1_ms() {
    let network = Network::new(1);
    let (pool, _events) = pool(&network, 1);
    let mut times = Vec::new();
    for number in 0..10_000_u32 {
        let address = format!("absent{number}");
        let start = Instant::now();
        pool.insert(number, address);
        times.push(start.elapsed());
    }
    // This task has not waited, so a dial until here would be the caller's own.
    assert_eq!(network.total().dials, 0);
    times.sort_unstable();
    let p99 = times[9_900];
    println!(
        "insert of an absent worker: p50 {:?}, p99 {p99:?}",
        times[5_000]
    );
    assert!(p99 < millis(1), "{p99:?}");
    while network.total().dials_refused < 10_000 {
        tokio::task::yield_now().await;
    }
}

#[tokio::test(start_paused = true)]
async fn attempts_are_spaced_by_half_to_the_whole_of_a_doubled_delay_with_a_cap() {
    let network = Network::new(1);
    let (pool, mut events) = pool(&network, 1);
    pool.insert("a", "a".to_owned());
    let mut last = Instant::now();
    for failures in 0..50_u32 {
        let event = next(&mut events).await;
        let EventKind::AttemptFailed { error, .. } = event.kind else {
            panic!("{event:?}");
        };
        assert_eq!(error.class, OpenClass::Unreachable);
        let gap = last.elapsed();
        last = Instant::now();
        if let Some(doubled) = failures.checked_sub(1) {
            let whole = (100 << doubled.min(10)).min(5_000);
            // A timer ends within its millisecond.
            let (least, most) = (millis(whole / 2), millis(whole + 2));
            let least = least.max(millis(100));
            let most = most.max(millis(102));
            assert!(gap >= least && gap <= most, "{failures}: {gap:?}");
        }
    }
    assert_eq!(network.counts("a").dials, 50);
}

#[tokio::test(start_paused = true)]
async fn a_worker_that_admits_and_hangs_up_is_dialed_18_times_in_30_s_at_most() {
    let network = Network::new(1);
    network.serve("a", Acceptor::new("a", 1, 0), |_: WorkerSession| async {});
    let (pool, mut events) = pool(&network, 1);
    pool.insert("a", "a".to_owned());
    tokio::time::sleep(millis(30_000)).await;
    let dials = network.counts("a").dials;
    assert!((6..=18).contains(&dials), "{dials}");
    // A worker that stays is healthy after 5 s: its next break is mended at once.
    network.serve("a", Acceptor::new("a", 2, 0), echo);
    pool.ready(["a"], millis(10_000)).await.unwrap();
    tokio::time::sleep(millis(5_000)).await;
    while events.try_recv().is_some() {}
    network.reset("a");
    assert_eq!(told(&mut events).await, "a lost: the connection was reset");
    let start = Instant::now();
    assert_eq!(told(&mut events).await, "a connected");
    assert!(start.elapsed() <= millis(100), "{:?}", start.elapsed());
    assert_eq!(network.counts("a").resets, 1);
}

#[tokio::test(start_paused = true)]
async fn a_dial_that_hangs_ends_after_10_s() {
    let network = Network::new(1);
    network.hang("a");
    let (pool, mut events) = pool(&network, 1);
    let start = Instant::now();
    pool.insert("a", "a".to_owned());
    let event = next(&mut events).await;
    assert!(
        matches!(event.kind, EventKind::AttemptFailed { .. }),
        "{event:?}"
    );
    assert_eq!(start.elapsed().as_millis() / 10, 1_000);
    assert_eq!(network.counts("a").dials_held, 1);
}
