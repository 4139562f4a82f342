//! Hunts calls that etcd is better spared: those that a hand-over does not need, and reads
//! that are canceled.

use std::{
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering::Relaxed},
    },
    time::Duration,
};

use leader_election::{Election, Resigned};

use super::{Fake, Fate, bent, lead};
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

/// Versions of etcd end with a panic when a read is canceled while it is served.
#[tokio::test(flavor = "multi_thread")]
async fn a_read_that_nobody_waits_for_any_more_is_not_canceled() {
    let fake = Fake::start().await;
    let election = fake.join_as(config(30)).await;
    fake.bend_txns(|_, asked, kept| {
        if asked.compare.is_empty() {
            Fate::Late(kept, Duration::from_millis(300))
        } else {
            Fate::Kept(kept)
        }
    });
    let campaign = tokio::spawn({
        let election = election.clone();
        async move { election.campaign(b"a").await }
    });
    // The read of where the new place stands.
    bent(&fake, 1).await;
    campaign.abort();
    let left = async {
        while fake.candidates() > 0 {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    };
    soon(left).await;
    let served = async {
        while fake.late() == 0 {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    };
    soon(served).await;
}
