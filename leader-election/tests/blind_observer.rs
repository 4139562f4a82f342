//! Hunts observers that miss a change, end too early or show the past.

mod support;

use leader_election::{Election, ErrorKind, Leader, MemoryElection, MemoryStore};
use support::{Call, TTL, Trouble, Wire, config, secs, settle};

fn leads(value: &str, token: u64) -> Option<Leader> {
    Some(Leader::new(value, token, ""))
}

#[tokio::test(start_paused = true)]
async fn the_present_leader_is_there_at_once() {
    let election = MemoryElection::simulated(config(), 1);
    assert_eq!(*election.observe().borrow(), None);
    let _leader = election.campaign(b"a").await.unwrap();
    settle().await;
    assert_eq!(*election.observe().borrow(), leads("a", 1));

    let late = MemoryElection::simulated(config(), 1);
    let _leader = late.campaign(b"a").await.unwrap();
    assert_eq!(
        *late.observe().borrow(),
        leads("a", 1),
        "on the first call too"
    );
}

#[tokio::test(start_paused = true)]
async fn every_change_is_shown_also_that_nobody_leads() {
    let election = MemoryElection::simulated(config(), 1);
    let mut leader = election.observe();
    let first = election.campaign(b"a").await.unwrap();
    leader.changed().await.unwrap();
    assert_eq!(*leader.borrow_and_update(), leads("a", 1));
    first.proclaim(b"b").await.unwrap();
    leader.changed().await.unwrap();
    assert_eq!(*leader.borrow_and_update(), leads("b", 1));
    first.resign().await;
    leader.changed().await.unwrap();
    assert_eq!(*leader.borrow_and_update(), None);

    // A lease that runs out with nobody else in the queue.
    let second = election.campaign(b"c").await.unwrap();
    settle().await;
    leader.borrow_and_update();
    election.cut(second.token());
    let changed = tokio::time::timeout(TTL + secs(0.1), leader.changed());
    changed.await.unwrap().unwrap();
    assert_eq!(*leader.borrow_and_update(), None);
}

#[tokio::test(start_paused = true)]
async fn an_observer_survives_outages_and_then_shows_the_newest() {
    let wire = Wire::new(MemoryStore::new(1));
    wire.rule(|call, nth| match call {
        Call::Observe if nth < 20 => Trouble::fails(ErrorKind::Unavailable),
        _ => Trouble::default(),
    });
    let election = wire.election(config());
    let mut leader = election.observe();
    for turn in 0..3 {
        let leadership = election.campaign(b"a").await.unwrap();
        tokio::time::sleep(secs(1.0)).await;
        if turn < 2 {
            leadership.resign().await;
        } else {
            std::mem::forget(leadership);
        }
    }
    let newest = leader.wait_for(|leader| leader.is_some());
    let shown = tokio::time::timeout(secs(60.0), newest)
        .await
        .unwrap()
        .unwrap()
        .clone();
    assert_eq!(shown, leads("a", 3));
    assert_eq!(wire.sent(Call::Observe).len(), 21);
}

/// Each try may cost the store the check of a password.
#[tokio::test(start_paused = true)]
async fn an_observer_that_is_refused_asks_once_a_minute_and_goes_on_when_it_is_not() {
    let wire = Wire::new(MemoryStore::new(1));
    wire.rule(|call, nth| match call {
        Call::Observe if nth < 40 => Trouble::fails(ErrorKind::Denied),
        _ => Trouble::default(),
    });
    let election = wire.election(config());
    let mut leader = election.observe();
    tokio::time::sleep(secs(600.0)).await;
    let asked = wire.sent(Call::Observe).len();
    assert!((10..=30).contains(&asked), "{asked} times in ten minutes");
    let _leader = election.campaign(b"a").await.unwrap();
    let shown = tokio::time::timeout(secs(3600.0), leader.wait_for(Option::is_some));
    assert_eq!(*shown.await.unwrap().unwrap(), leads("a", 1));
}

#[tokio::test(start_paused = true)]
async fn it_ends_with_the_last_handle_and_leaves_no_task() {
    let tasks = || {
        tokio::runtime::Handle::current()
            .metrics()
            .num_alive_tasks()
    };
    let before = tasks();
    let election = MemoryElection::simulated(config(), 1);
    let clone = election.clone();
    let mut leader = election.observe();
    drop(election);
    settle().await;
    assert!(leader.has_changed().is_ok(), "a clone is left");
    drop(clone);
    assert!(leader.changed().await.is_err());
    settle().await;
    assert_eq!(tasks(), before);
}
