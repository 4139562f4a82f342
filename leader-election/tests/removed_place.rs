//! Hunts leaders that outlive their key, and tokens that move.

mod support;

use leader_election::{Election, ErrorKind, Loss, MemoryElection, simulated_time};
use support::{config, secs, settle, spawn_campaign};

/// E03.
#[tokio::test(start_paused = true)]
async fn a_key_removed_by_hand_ends_the_leadership_at_once() {
    for remove in [MemoryElection::delete, MemoryElection::expire] {
        let election = MemoryElection::simulated(config(), 1);
        let leader = election.campaign(b"a").await.unwrap();
        let standby = spawn_campaign(&election, b"b");
        tokio::time::sleep(secs(1.0)).await;
        let removed = simulated_time();
        remove(&election, leader.token());
        assert_eq!(leader.lost().await, Loss::Removed);
        assert!(!leader.is_valid());
        assert!(simulated_time() - removed < secs(1.0));

        let again = spawn_campaign(&election, b"a");
        let standby = standby.await.unwrap();
        assert_eq!(standby.token(), 2);
        tokio::time::sleep(secs(60.0)).await;
        assert!(!again.is_finished());
        drop(standby);
        assert_eq!(again.await.unwrap().token(), 3);
        let error = leader.proclaim(b"a").await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Lost);
    }
}

/// E12, variant.
#[tokio::test(start_paused = true)]
async fn twenty_losses_in_a_row_are_followed_by_twenty_leaderships() {
    let election = MemoryElection::simulated(config(), 1);
    let mut last = 0;
    for _ in 0..20 {
        let won = tokio::time::timeout(secs(1.0), election.campaign(b"a")).await;
        let leadership = won.unwrap().unwrap();
        assert!(leadership.token() > last);
        last = leadership.token();
        election.expire(last);
        assert_eq!(leadership.lost().await, Loss::Removed);
        assert_eq!(election.places(), 0);
    }
}

/// E04.
#[tokio::test(start_paused = true)]
async fn the_token_stays_while_the_value_changes_and_rises_when_won_again() {
    let election = MemoryElection::simulated(config(), 5);
    let mut leader = election.observe();
    let leadership = election.campaign(b"v0").await.unwrap();
    let token = leadership.token();
    for number in 1..=10 {
        let value = format!("v{number}");
        leadership.proclaim(value.as_bytes()).await.unwrap();
        let shown = leader.wait_for(|leader| {
            let shown = leader.as_ref();
            shown.is_some_and(|leader| leader.value == value.as_bytes())
        });
        assert_eq!(shown.await.unwrap().as_ref().unwrap().token, token);
        assert_eq!(leadership.token(), token);
    }
    leadership.resign().await;
    let again = election.campaign(b"v0").await.unwrap();
    assert!(again.token() > token);
}

#[tokio::test(start_paused = true)]
async fn a_proclaim_that_finds_the_place_gone_ends_the_leadership() {
    let election = MemoryElection::simulated(config(), 1);
    let leadership = election.campaign(b"a").await.unwrap();
    election.cut(1);
    let error = leadership.proclaim(b"b").await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Unavailable);
    assert!(leadership.is_valid(), "an unknown outcome ends nothing");
    election.delete(1);
    election.heal(1);
    let error = leadership.proclaim(b"b").await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Lost);
    assert!(!leadership.is_valid());
}

#[tokio::test(start_paused = true)]
async fn a_value_of_one_mebibyte_is_the_longest() {
    let election = MemoryElection::simulated(config(), 1);
    let longest = vec![0; leader_election::MAX_VALUE_BYTES];
    let leadership = election.campaign(&longest).await.unwrap();
    leadership.proclaim(&longest).await.unwrap();
    let longer = vec![0; leader_election::MAX_VALUE_BYTES + 1];
    let refused = leadership.proclaim(&longer).await.unwrap_err();
    assert_eq!(refused.kind(), ErrorKind::Invalid);
    let refused = election.campaign(&longer).await.unwrap_err();
    assert_eq!(refused.kind(), ErrorKind::Invalid);
}

#[tokio::test(start_paused = true)]
async fn the_last_token_is_given_once_and_then_refused() {
    let election = MemoryElection::simulated(config(), u64::MAX);
    let leadership = election.campaign(b"a").await.unwrap();
    assert_eq!(leadership.token(), u64::MAX);
    assert_eq!(leadership.scope(), "");
    leadership.resign().await;
    settle().await;
    let error = election.campaign(b"a").await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Invalid);
}
