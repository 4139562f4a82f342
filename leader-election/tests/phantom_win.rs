//! Hunts wins without a place: a lease lost while waiting, a notice that lies,
//! a notice that never comes.

mod support;

use leader_election::{Election, ElectionConfig, ErrorKind, MemoryElection, MemoryStore};
use support::{Call, TTL, Trouble, Wire, config, secs, settle, spawn_campaign};

#[tokio::test(start_paused = true)]
async fn candidates_lead_in_the_order_in_which_they_joined() {
    let election = MemoryElection::simulated(config(), 100);
    let mut queue = Vec::new();
    for _ in 0..20 {
        queue.push(spawn_campaign(&election, b"n"));
        settle().await;
    }
    for (number, candidate) in (0..).zip(queue) {
        let leadership = candidate.await.unwrap();
        assert_eq!(leadership.token(), 100 + number);
        tokio::time::sleep(secs(15.0)).await;
        leadership.resign().await;
    }
}

#[tokio::test(start_paused = true)]
async fn a_lease_lost_while_waiting_means_the_back_of_the_queue() {
    let election = MemoryElection::simulated(config(), 1);
    let leader = election.campaign(b"a").await.unwrap();
    let second = spawn_campaign(&election, b"b");
    settle().await;
    let third = spawn_campaign(&election, b"c");
    settle().await;
    // The second candidate's place: 2 at first, then 4.
    election.expire(2);
    settle().await;
    election.delete(4);
    tokio::time::sleep(secs(1.0)).await;
    assert_eq!(election.places(), 3);
    leader.resign().await;
    assert_eq!(third.await.unwrap().token(), 3);
    assert_eq!(second.await.unwrap().token(), 5);
}

/// E12: every process sleeps through its lease.
#[tokio::test(start_paused = true)]
async fn waiting_cut_off_for_long_is_survived() {
    let election = MemoryElection::simulated(config(), 1);
    let leader = election.campaign(b"a").await.unwrap();
    let second = spawn_campaign(&election, b"b");
    settle().await;
    election.cut(2);
    tokio::time::sleep(3 * TTL).await;
    assert_eq!(election.places(), 1, "the store has dropped the second");
    election.heal(2);
    tokio::time::sleep(secs(3.0)).await;
    assert_eq!(election.places(), 2, "it has joined again");
    leader.resign().await;
    assert_eq!(second.await.unwrap().token(), 3);
}

#[tokio::test(start_paused = true)]
async fn a_place_lost_between_win_and_confirmation_is_no_win() {
    let store = MemoryStore::new(1);
    let wire = Wire::new(store.clone());
    wire.rule(move |call, nth| {
        if call == Call::Renew && nth == 0 {
            store.expire(1);
        }
        Trouble::default()
    });
    let leadership = wire.election(config()).campaign(b"n1").await.unwrap();
    assert_eq!(leadership.token(), 2);
}

/// So that a late answer or release of the old place cannot hit the new one.
#[tokio::test(start_paused = true)]
async fn a_repeated_attempt_keeps_its_id_and_a_new_place_has_a_new_one() {
    let store = MemoryStore::new(1);
    let wire = Wire::new(store.clone());
    wire.rule(move |call, nth| match (call, nth) {
        (Call::Join, 0) => Trouble::lost_answer(),
        (Call::Renew, 0) => {
            store.expire(1);
            Trouble::default()
        }
        _ => Trouble::default(),
    });
    let leadership = wire.election(config()).campaign(b"n1").await.unwrap();
    assert_eq!(
        leadership.token(),
        2,
        "one place for two attempts, then another"
    );
    let ids = wire.joined();
    assert_eq!(ids.len(), 3);
    assert_eq!(ids[0], ids[1]);
    assert_ne!(ids[1], ids[2]);
}

#[tokio::test(start_paused = true)]
async fn a_win_that_cannot_be_confirmed_is_not_returned() {
    let wire = Wire::new(MemoryStore::new(1));
    wire.rule(|call, _| match call {
        Call::Renew => Trouble::lost_answer(),
        _ => Trouble::default(),
    });
    let candidate = spawn_campaign(&wire.election(config()), b"n1");
    tokio::time::sleep(secs(60.0)).await;
    assert!(!candidate.is_finished());
    wire.rule(|_, _| Trouble::default());
    let leadership = candidate.await.unwrap();
    let fresh = leadership.deadline() - leader_election::simulated_time();
    assert!(fresh > secs(9.9), "{fresh:?} left");
}

#[tokio::test(start_paused = true)]
async fn a_notice_that_got_lost_costs_one_lease_not_the_election() {
    let wire = Wire::new(MemoryStore::new(1));
    wire.rule(|call, nth| match call {
        // The first is the leader's own, the second the candidate's.
        Call::Wait if nth == 1 => Trouble::lost_request(),
        _ => Trouble::default(),
    });
    let election = wire.election(config());
    let leader = election.campaign(b"a").await.unwrap();
    let second = spawn_campaign(&election, b"b");
    settle().await;
    leader.resign().await;
    let won = tokio::time::timeout(TTL + secs(1.0), second).await;
    assert_eq!(won.unwrap().unwrap().token(), 2);
}

/// E14: the same name is no claim to the same place.
#[tokio::test(start_paused = true)]
async fn a_restart_under_the_same_name_waits_for_the_old_lease() {
    let election = MemoryElection::simulated(config(), 1);
    let leader = election.observe();
    let crashed = election.campaign(b"n1").await.unwrap();
    election.cut(crashed.token());
    drop(crashed);

    let started = tokio::time::Instant::now();
    let restarted = spawn_campaign(&election, b"n1");
    tokio::time::sleep(secs(9.9)).await;
    assert!(!restarted.is_finished());
    assert_eq!(leader.borrow().as_ref().map(|leader| leader.token), Some(1));
    assert_eq!(restarted.await.unwrap().token(), 2);
    assert!(started.elapsed() < TTL + secs(2.0));
}

#[tokio::test(start_paused = true)]
async fn an_absent_store_is_retried_and_wrong_credentials_are_not() {
    let wire = Wire::new(MemoryStore::new(1));
    wire.rule(|_, _| Trouble::fails(ErrorKind::Unavailable));
    let candidate = spawn_campaign(&wire.election(config()), b"n1");
    tokio::time::sleep(secs(300.0)).await;
    let tries = wire.sent(Call::Join).len();
    assert!((100..600).contains(&tries), "{tries} tries in 300 s");
    wire.rule(|_, _| Trouble::default());
    let won = tokio::time::timeout(secs(2.0), candidate).await;
    assert_eq!(won.unwrap().unwrap().token(), 1);

    let wire = Wire::new(MemoryStore::new(1));
    for denied in [Call::Join, Call::Verify, Call::Renew] {
        wire.rule(move |call, _| {
            if call == denied {
                return Trouble::fails(ErrorKind::Denied);
            }
            Trouble::default()
        });
        let error = wire.election(config()).campaign(b"n1").await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Denied, "{denied:?}");
        settle().await;
        assert_eq!(
            wire.store.places(),
            0,
            "{denied:?}: the place is given back"
        );
    }
}

#[tokio::test(start_paused = true)]
async fn an_invalid_configuration_is_reported_by_the_campaign() {
    let config = ElectionConfig::for_ttl(TTL).with_reserve(secs(9.0));
    let election = MemoryElection::simulated(config, 1);
    let error = election.campaign(b"n1").await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Invalid);
    assert_eq!(election.places(), 0);
    // Other settings, same election.
    let leadership = election.with_config(self::config()).campaign(b"n1").await;
    assert_eq!(leadership.unwrap().token(), 1);
}

#[tokio::test(start_paused = true)]
async fn a_takeover_delay_counts_from_when_the_predecessor_went() {
    let at_once = MemoryElection::simulated(config(), 1);
    let election = at_once.with_config(config().with_takeover_delay(secs(25.0)));
    let first = at_once.campaign(b"a").await.unwrap();
    let second = spawn_campaign(&election, b"b");
    settle().await;
    first.resign().await;
    let went = tokio::time::Instant::now();
    let second = second.await.unwrap();
    assert!((secs(25.0)..secs(25.1)).contains(&went.elapsed()));
    assert!(second.is_valid());
}

/// It may have gone while its successor joined.
#[tokio::test(start_paused = true)]
async fn a_predecessor_that_was_not_seen_is_waited_for_as_well() {
    let config = config().with_takeover_delay(secs(25.0));
    let election = MemoryElection::simulated(config, 1);
    let start = tokio::time::Instant::now();
    let leadership = election.campaign(b"a").await.unwrap();
    assert!((secs(25.0)..secs(25.1)).contains(&start.elapsed()));
    assert!(leadership.is_valid());
}
