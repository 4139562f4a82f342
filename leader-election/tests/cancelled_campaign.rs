//! Hunts candidates that stay in the queue, or lead, after their campaign was
//! dropped.

mod support;

use std::time::Duration;

use leader_election::{Election, MemoryElection, MemoryStore};
use support::{Call, TTL, Trouble, Wire, config, secs, settle, spawn_campaign};

/// Every call takes 10 ms each way, so a drop every 5 ms meets each await.
fn slow_wire() -> Wire {
    let wire = Wire::new(MemoryStore::new(1));
    wire.rule(|_, _| Trouble::slow(0.01, 0.01));
    wire
}

#[tokio::test(start_paused = true)]
async fn dropping_a_campaign_at_any_await_leaves_nobody_behind() {
    let mut reached = std::collections::BTreeSet::new();
    for step in 0..40 {
        let wire = slow_wire();
        let election = wire.election(config());
        let patience = Duration::from_millis(5 * step);
        let won = tokio::time::timeout(patience, election.campaign(b"n1")).await;
        for call in [Call::Join, Call::Verify, Call::Renew] {
            if !wire.sent(call).is_empty() {
                reached.insert(call);
            }
        }
        drop(won);
        tokio::time::sleep(secs(0.1)).await;
        assert_eq!(wire.store.places(), 0, "dropped after {patience:?}");
        let next = tokio::time::timeout(secs(1.0), election.campaign(b"n2")).await;
        assert!(
            next.unwrap().unwrap().is_valid(),
            "dropped after {patience:?}"
        );
    }
    assert_eq!(reached.len(), 3, "every stage was met: {reached:?}");
}

#[tokio::test(start_paused = true)]
async fn dropping_a_campaign_while_the_turn_comes_leaves_nobody_behind() {
    for step in 0..40 {
        let wire = slow_wire();
        let election = wire.election(config());
        let leader = election.campaign(b"n1").await.unwrap();
        let second = spawn_campaign(&election, b"n2");
        tokio::time::sleep(secs(1.0)).await;
        assert_eq!(wire.store.places(), 2);
        drop(leader);
        tokio::time::sleep(Duration::from_millis(5 * step)).await;
        // Aborting drops the campaign, or the leadership if it was won.
        second.abort();
        drop(second);
        tokio::time::sleep(secs(0.2)).await;
        assert_eq!(wire.store.places(), 0, "dropped after step {step}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_campaign_that_was_never_polled_sends_nothing() {
    let wire = slow_wire();
    let election = wire.election(config());
    drop(election.campaign(b"n1"));
    settle().await;
    assert!(wire.sent(Call::Join).is_empty());
}

#[tokio::test(start_paused = true)]
async fn a_candidate_that_cannot_reach_the_store_is_gone_after_one_lease() {
    let election = MemoryElection::simulated(config(), 1);
    let leader = election.campaign(b"n1").await.unwrap();
    let second = spawn_campaign(&election, b"n2");
    tokio::time::sleep(secs(1.0)).await;
    election.cut(2);
    second.abort();
    tokio::time::sleep(secs(1.0)).await;
    assert_eq!(election.places(), 2);
    tokio::time::sleep(TTL).await;
    assert_eq!(election.places(), 1);
    assert!(leader.is_valid());
}

#[tokio::test(start_paused = true)]
async fn a_withdrawal_is_repeated_until_the_store_hears_it() {
    let wire = Wire::new(MemoryStore::new(1));
    let election = wire.election(config());
    let leader = election.campaign(b"n1").await.unwrap();
    let second = spawn_campaign(&election, b"n2");
    settle().await;
    wire.rule(|call, nth| match call {
        Call::Leave if nth < 2 => Trouble::lost_request(),
        _ => Trouble::default(),
    });
    second.abort();
    tokio::time::sleep(secs(5.0)).await;
    assert_eq!(wire.store.places(), 1);
    assert_eq!(wire.sent(Call::Leave).len(), 3);
    assert!(leader.is_valid());
}

#[tokio::test(start_paused = true)]
async fn ten_thousand_campaigns_leave_no_task_behind() {
    let election = MemoryElection::simulated(config(), 1);
    let tasks = || {
        tokio::runtime::Handle::current()
            .metrics()
            .num_alive_tasks()
    };
    let before = tasks();
    for turn in 0..10_000 {
        let leadership = election.campaign(b"n1").await.unwrap();
        if turn % 2 == 0 {
            leadership.resign().await;
        }
    }
    settle().await;
    assert_eq!(election.places(), 0);
    assert_eq!(tasks(), before);
}
