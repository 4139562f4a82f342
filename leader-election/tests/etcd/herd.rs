//! Hunts a departure that wakes more candidates than the one behind it.
//!
//! What etcd sends to watchers is read from its own count of events.

use std::time::Duration;

use leader_election::{Election, Error, Leadership, Resigned};
use tokio::{task::JoinSet, time::sleep};

use crate::{join, queued, server::Etcd, soon, watching};

const CANDIDATES: usize = 1000;
/// Keys of another client between them: whoever deletes one watches nothing.
const BARE: usize = 20;
const RESIGNS: usize = 20;

/// Returns how many events etcd has sent to watchers since it started.
async fn events_sent(etcd: &Etcd) -> u64 {
    etcd.metric(&["etcd_debugging_mvcc_events_total"]).await
}

async fn next(campaigns: &mut JoinSet<Result<Leadership, Error>>) -> Leadership {
    let won = soon(campaigns.join_next()).await.expect("candidates");
    won.expect("no panic").expect("no final error")
}

/// Waits until etcd has sent so many events, then as long again for more that must not
/// come, and returns how many it was.
async fn sent_at_least(etcd: &Etcd, before: u64, count: u64) -> u64 {
    let all = async {
        while events_sent(etcd).await < before + count {
            sleep(Duration::from_millis(10)).await;
        }
    };
    soon(all).await;
    // An event that wakes a herd is sent to all of it in one go.
    sleep(Duration::from_millis(300)).await;
    events_sent(etcd).await - before
}

#[tokio::test(flavor = "multi_thread")]
async fn a_departure_among_a_thousand_wakes_one_candidate() {
    let etcd = Etcd::start().await;
    // Renewals, and the reads of those that wait, do not matter here.
    let election = join(&etcd, 60).await;
    let mut client = etcd.client().await;
    let mut campaigns = JoinSet::new();
    let step = CANDIDATES / BARE;
    for bare in 0..BARE {
        for _ in 0..step {
            let election = election.clone();
            campaigns.spawn(async move { election.campaign(b"one of many").await });
        }
        queued(&election, (bare + 1) * step + bare).await;
        client
            .put(format!("e/bare {bare}"), "", None)
            .await
            .unwrap();
    }
    queued(&election, CANDIDATES + BARE).await;
    let mut leadership = next(&mut campaigns).await;
    // All watch their own key, and all but the leader the one before it.
    watching(&etcd, 2 * CANDIDATES as u64 - 1).await;

    let before = events_sent(&etcd).await;
    for bare in 0..BARE {
        client.delete(format!("e/bare {bare}"), None).await.unwrap();
    }
    // The last of them has nobody behind it.
    let wakes = BARE as u64 - 1;
    let woken = sent_at_least(&etcd, before, wakes).await;
    println!("{BARE} departures of others: {woken} events");
    assert_eq!(woken, wakes, "one for each that has somebody behind it");

    let before = events_sent(&etcd).await;
    for _ in 0..RESIGNS {
        assert_eq!(leadership.resign().await, Resigned::Released);
        let next = next(&mut campaigns).await;
        assert!(next.token() > leadership.token());
        leadership = next;
    }
    let resigns = RESIGNS as u64;
    let woken = sent_at_least(&etcd, before, resigns).await;
    println!("{RESIGNS} leaders resigned: {woken} events");
    // The one that leaves may see its own key go, too.
    assert!(woken <= 2 * resigns, "{woken}");
}
