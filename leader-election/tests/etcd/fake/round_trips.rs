//! Hunts hand-overs that ask etcd for more than they need.

use std::sync::{
    Arc,
    atomic::{AtomicU64, Ordering::Relaxed},
};

use leader_election::Resigned;

use super::{Fake, Fate, lead};
use crate::{config, soon};

/// How many steps a read of where a place stands has: its key, the life id, and who is ahead.
/// That of a renewal has two.
const STEPS: usize = 3;

#[tokio::test(flavor = "multi_thread")]
async fn a_hand_over_reads_the_queue_once() {
    let fake = Fake::start().await;
    // Long limits: no call is repeated on a machine with other work to do.
    let join = || fake.join_as(config(30));
    let (first, second) = (join().await, join().await);
    let leads = lead(&first, b"a").await.unwrap();
    let waits = tokio::spawn(async move { lead(&second, b"b").await.unwrap() });
    // The leader's own key, then those of the candidate and of who is ahead of it.
    fake.watched(3).await;
    let reads = Arc::new(AtomicU64::new(0));
    let count = Arc::clone(&reads);
    fake.bend_txns(move |_, asked, kept| {
        let is_read = asked.compare.is_empty() && asked.success.len() == STEPS;
        count.fetch_add(u64::from(is_read), Relaxed);
        Fate::Kept(kept)
    });
    assert_eq!(leads.resign().await, Resigned::Released);
    let _next = soon(waits).await.unwrap();
    // The winner's own key, as a leader.
    fake.watched(4).await;
    // One before the win, and one with which the leader's watch begins.
    assert_eq!(reads.load(Relaxed), 2);
}
