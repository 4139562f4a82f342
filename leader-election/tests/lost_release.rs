//! Hunts leaderships that stay in the store after they were given up, and
//! releases that hit a successor.

mod support;

use std::sync::{Arc, Mutex};

use leader_election::{
    Election, ErrorKind, Loss, MemoryElection, MemoryStore, Place, Resigned, Store, simulated_time,
};
use support::{Call, TTL, Trouble, USABLE, Wire, config, secs, settle, spawn_campaign};

/// E11.
#[tokio::test(start_paused = true)]
async fn a_graceful_stop_hands_over_at_once() {
    let election = MemoryElection::simulated(config(), 1);
    for drop_it in [false, true] {
        let leader = election.campaign(b"a").await.unwrap();
        let standby = spawn_campaign(&election, b"b");
        tokio::time::sleep(secs(20.0)).await;
        let asked = simulated_time();
        if drop_it {
            drop(leader);
        } else {
            assert_eq!(leader.resign().await, Resigned::Released);
        }
        let next = standby.await.unwrap();
        assert!(simulated_time() - asked < secs(0.05));
        assert_eq!(next.resign().await, Resigned::Released);
    }
}

/// E02.
#[tokio::test(start_paused = true)]
async fn a_resign_that_never_arrived_is_repeated() {
    let election = MemoryElection::simulated(config(), 1);
    let leader = election.campaign(b"a").await.unwrap();
    election.cut(leader.token());
    let asked = simulated_time();
    assert_eq!(leader.resign().await, Resigned::Unconfirmed);
    let took = simulated_time() - asked;
    assert!(took <= 2 * config().renew_timeout + secs(0.01), "{took:?}");
    assert!(!leader.is_valid());
    assert_eq!(election.places(), 1, "the store has not heard of it");

    election.heal(leader.token());
    let asked = simulated_time();
    assert_eq!(leader.resign().await, Resigned::Released);
    assert!(simulated_time() - asked < 2 * config().renew_timeout);
    assert_eq!(election.places(), 0);
    assert_eq!(leader.resign().await, Resigned::Released);
}

#[tokio::test(start_paused = true)]
async fn a_release_goes_on_in_the_background_beyond_the_deadline() {
    let wire = Wire::new(MemoryStore::new(1));
    let leader = wire.election(config()).campaign(b"a").await.unwrap();
    let deadline = leader.deadline();
    wire.rule(|call, _| match call {
        Call::Leave => Trouble::lost_request(),
        _ => Trouble::default(),
    });
    assert_eq!(leader.resign().await, Resigned::Unconfirmed);
    tokio::time::sleep(secs(30.0)).await;
    let tries = wire.sent(Call::Leave);
    assert!(tries.iter().filter(|at| **at < deadline).count() > 3);
    assert!(tries.last().is_some_and(|at| *at > deadline + secs(15.0)));
    assert_eq!(leader.resign().await, Resigned::AlreadyOver);
    assert_eq!(wire.sent(Call::Renew).len(), 1);

    wire.rule(|_, _| Trouble::default());
    tokio::time::sleep(secs(3.0)).await;
    let confirmed = wire.sent(Call::Leave).len();
    tokio::time::sleep(secs(30.0)).await;
    assert_eq!(wire.sent(Call::Leave).len(), confirmed, "it is done");
}

/// A store that was away may start every lease anew: the place of a leader that expired
/// would block the others for as long again.
#[tokio::test(start_paused = true)]
async fn a_place_whose_lease_the_store_started_anew_is_given_back_once_it_is_there() {
    for stalls in [false, true] {
        let wire = Wire::new(MemoryStore::new(1));
        let config = config().with_renew_while(move || !stalls);
        let leader = wire.election(config).campaign(b"a").await.unwrap();
        let place = Place::new(wire.joined()[0], leader.token(), "");
        wire.rule(move |call, _| match call {
            Call::Renew | Call::Leave if !stalls => Trouble::fails(ErrorKind::Unavailable),
            _ => Trouble::default(),
        });
        let reason = if stalls { Loss::Stalled } else { Loss::Expired };
        // What etcd does with the leases of places when it is back.
        let restarted = async {
            loop {
                tokio::time::sleep(secs(1.0)).await;
                wire.store.renew(&place).await.unwrap();
                if stalls && leader.deadline().is_zero() {
                    break;
                }
                if simulated_time() > leader.deadline() + secs(120.0) {
                    break;
                }
            }
        };
        let (lost, ()) = tokio::join!(leader.lost(), restarted);
        assert_eq!(lost, reason);
        if !stalls {
            assert_eq!(wire.store.tokens(), [1], "it blocks the others");
        }
        wire.rule(|_, _| Trouble::default());
        tokio::time::sleep(secs(1.1)).await;
        assert_eq!(wire.store.places(), 0, "{reason}");
    }
}

/// E13.
#[tokio::test(start_paused = true)]
async fn giving_up_what_is_already_gone_is_no_error() {
    let election = MemoryElection::simulated(config(), 1);
    let leader = election.campaign(b"a").await.unwrap();
    election.expire(leader.token());
    assert_eq!(leader.lost().await, Loss::Removed);
    assert_eq!(leader.resign().await, Resigned::AlreadyOver);
    assert_eq!(leader.lost().await, Loss::Removed, "the first reason stays");
}

#[tokio::test(start_paused = true)]
async fn followers_are_told_before_the_release_is_sent() {
    let wire = Wire::new(MemoryStore::new(1));
    let leader = wire.election(config()).campaign(b"a").await.unwrap();
    let events = Arc::new(Mutex::new(Vec::new()));
    let (told, sent) = (Arc::clone(&events), Arc::clone(&events));
    leader.follow(move |deadline| told.lock().unwrap().push(deadline.is_zero().to_string()));
    wire.rule(move |call, _| {
        sent.lock().unwrap().push(format!("{call:?}"));
        Trouble::default()
    });
    leader.resign().await;
    assert_eq!(*events.lock().unwrap(), ["false", "true", "Leave"]);
}

#[tokio::test(start_paused = true)]
async fn a_release_never_removes_the_successor() {
    let wire = Wire::new(MemoryStore::new(1));
    let election = wire.election(config());
    let leader = election.campaign(b"same").await.unwrap();
    // The release is under way while the lease is revoked and the next leads.
    wire.rule(|call, _| match call {
        Call::Leave => Trouble::slow(1.0, 0.0),
        _ => Trouble::default(),
    });
    let (outcome, next) = tokio::join!(leader.resign(), async {
        settle().await;
        wire.store.expire(1);
        election.campaign(b"same").await.unwrap()
    });
    assert_eq!(outcome, Resigned::Released);
    tokio::time::sleep(secs(30.0)).await;
    assert!(next.is_valid());
    assert_eq!(wire.store.places(), 1);
}

/// F10.
#[tokio::test(start_paused = true)]
async fn an_answer_that_arrives_after_resign_revives_nothing() {
    for drop_it in [false, true] {
        let wire = Wire::new(MemoryStore::new(1));
        wire.rule(|call, nth| match call {
            Call::Renew if nth == 1 => Trouble::slow(0.0, 1.5),
            _ => Trouble::default(),
        });
        let election = wire.election(config());
        let leader = election.campaign(b"a").await.unwrap();
        let seen = Arc::new(Mutex::new(Vec::new()));
        let record = Arc::clone(&seen);
        leader.follow(move |deadline| record.lock().unwrap().push(deadline));
        let first = leader.deadline();
        tokio::time::sleep(secs(4.0)).await;
        assert_eq!(wire.sent(Call::Renew).len(), 2, "the answer is on its way");
        let old = if drop_it {
            drop(leader);
            None
        } else {
            leader.resign().await;
            Some(leader)
        };
        let again = election.campaign(b"a").await.unwrap();
        tokio::time::sleep(secs(3.0)).await;
        assert!(again.is_valid());
        assert!(old.is_none_or(|old| !old.is_valid() && old.deadline().is_zero()));
        assert_eq!(*seen.lock().unwrap(), [first, std::time::Duration::ZERO]);
        let renewals = wire.sent(Call::Renew).len();
        assert_eq!(
            renewals, 3,
            "two of the first, one of the second leadership"
        );
    }
}

#[tokio::test(start_paused = true)]
async fn a_cut_holder_that_is_dropped_keeps_its_place_until_the_lease_ends() {
    let election = MemoryElection::simulated(config(), 1);
    let leader = election.campaign(b"a").await.unwrap();
    let deadline = leader.deadline();
    election.cut(leader.token());
    drop(leader);
    let next = election.campaign(b"b").await.unwrap();
    let waited = simulated_time();
    assert!(waited > deadline);
    assert!(waited < deadline - USABLE + TTL + secs(0.1));
    assert_eq!(next.token(), 2);
}

#[tokio::test(start_paused = true)]
async fn a_follower_that_panics_gives_the_leadership_up() {
    let election = MemoryElection::simulated(config(), 1);
    let leader = election.campaign(b"a").await.unwrap();
    leader.follow(|_| panic!("a broken follower"));
    assert!(!leader.is_valid());
    assert_eq!(leader.lost().await, Loss::FollowerPanicked);
    assert_eq!(leader.resign().await, Resigned::Released);
    assert_eq!(election.places(), 0);
}

#[tokio::test(start_paused = true)]
async fn a_resign_that_is_dropped_after_its_first_poll_goes_on() {
    let election = MemoryElection::simulated(config(), 1);
    let leader = election.campaign(b"a").await.unwrap();
    tokio::select! {
        biased;
        outcome = leader.resign() => panic!("answered at once: {outcome}"),
        () = std::future::ready(()) => {}
    }
    assert!(!leader.is_valid(), "over with the first poll");
    // Its drop would resign as well.
    std::mem::forget(leader);
    let soon = tokio::time::timeout(secs(0.1), election.campaign(b"b")).await;
    assert_eq!(soon.unwrap().unwrap().token(), 2);
}

#[tokio::test(start_paused = true)]
async fn a_leadership_outlives_the_last_handle_of_its_election() {
    let election = MemoryElection::simulated(config(), 1);
    let leader = election.campaign(b"a").await.unwrap();
    drop(election);
    tokio::time::sleep(secs(60.0)).await;
    assert!(leader.is_valid());
    assert_eq!(leader.resign().await, Resigned::Released);
}
