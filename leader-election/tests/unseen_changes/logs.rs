//! What is logged, and how loudly.

use leader_election::{Election, ErrorKind, Loss, MemoryElection, MemoryStore, Resigned};
use tokio::runtime::Builder;
use tracing::Level;

use crate::{
    lines::{heard, listen},
    support::{Call, Trouble, Wire, config, secs, settle, spawn_campaign},
};

#[tokio::test(start_paused = true)]
async fn giving_up_a_lease_that_is_gone_is_no_trouble() {
    listen();
    for dropped in [false, true] {
        let election = MemoryElection::simulated(config(), 1);
        let leadership = election.campaign(b"a").await.unwrap();
        heard();
        election.expire(leadership.token());
        assert_eq!(leadership.lost().await, Loss::Removed);
        if !dropped {
            assert_eq!(leadership.resign().await, Resigned::AlreadyOver);
        }
        drop(leadership);
        drop(election);
        tokio::time::sleep(secs(30.0)).await;
        let seen = heard();
        let told: Vec<_> = seen
            .iter()
            .filter(|(level, _)| *level < Level::DEBUG)
            .collect();
        let [(Level::INFO, line)] = told[..] else {
            panic!("one line of the loss was expected: {seen:?}");
        };
        assert!(
            line.contains("leads no longer") && line.contains("token=1"),
            "{line}"
        );
    }
}

#[test]
fn the_end_of_the_runtime_is_told_of_each_leadership_that_it_ends() {
    listen();
    let runtime = Builder::new_current_thread().enable_all().build().unwrap();
    let election = MemoryElection::new(config(), 1);
    let (ended, lives) = runtime.block_on(async {
        let ended = election.campaign(b"a").await.unwrap();
        ended.resign().await;
        (ended, election.campaign(b"b").await.unwrap())
    });
    heard();
    drop(runtime);
    let seen = heard();
    let [(Level::INFO, line)] = &seen[..] else {
        panic!("one line of the loss was expected: {seen:?}");
    };
    let token = format!("token={}", lives.token());
    assert!(
        line.contains("leads no longer") && line.contains(&token),
        "{line}"
    );
    assert!(line.contains(&Loss::Stopped.to_string()), "{line}");
    drop((ended, lives));
}

#[tokio::test(start_paused = true)]
async fn each_change_of_the_leadership_is_one_line_with_its_token() {
    listen();
    let election = MemoryElection::simulated(config(), 7);
    let first = election.campaign(b"secret").await.unwrap();
    let second = spawn_campaign(&election, b"secret");
    settle().await;
    election.expire(8);
    settle().await;
    first.proclaim(b"secret").await.unwrap();
    first.resign().await;
    let second = second.await.unwrap();
    drop(second);
    settle().await;
    let seen = heard();
    let told = seen.iter().filter(|(level, _)| *level == Level::INFO);
    let told: Vec<_> = told.map(|(_, line)| line.as_str()).collect();
    let expected = [
        ("leads ", "token=7"),
        ("joins again", "token=8"),
        ("leads no longer", "token=7"),
        ("leads ", "token=9"),
        ("leads no longer", "token=9"),
    ];
    assert_eq!(told.len(), expected.len(), "{told:#?}");
    for (line, (text, token)) in told.iter().zip(expected) {
        assert!(
            line.contains(text) && line.contains(token),
            "{line}: {text}, {token}"
        );
    }
    assert!(
        seen.iter().all(|(level, _)| *level >= Level::INFO),
        "{seen:#?}"
    );
    assert!(
        seen.iter().all(|(_, line)| !line.contains("secret")),
        "{seen:#?}"
    );
}

#[tokio::test(start_paused = true)]
async fn a_failed_renewal_is_a_warning_and_a_panic_of_the_store_an_error() {
    listen();
    let wire = Wire::new(MemoryStore::new(1));
    wire.rule(|call, nth| match (call, nth) {
        (Call::Renew, 1) => Trouble::fails(ErrorKind::Unavailable),
        (Call::Renew, 2) => std::panic::resume_unwind(Box::new("a fault of the test")),
        _ => Trouble::default(),
    });
    let leadership = wire.election(config()).campaign(b"a").await.unwrap();
    tokio::time::sleep(secs(12.0)).await;
    assert!(leadership.is_valid());
    let loud: Vec<_> = heard()
        .into_iter()
        .filter(|(level, _)| *level < Level::INFO)
        .collect();
    let [(Level::WARN, failed), (Level::ERROR, panicked)] = &loud[..] else {
        panic!("a warning and an error were expected: {loud:#?}");
    };
    assert!(
        failed.contains("renewals fail") && failed.contains("a fault of the test"),
        "{failed}"
    );
    assert!(
        panicked.contains("call to the store panicked"),
        "{panicked}"
    );
}

/// What is heard at these levels, of so many seconds.
async fn loud_for(seconds: f64) -> Vec<(Level, String)> {
    heard();
    tokio::time::sleep(secs(seconds)).await;
    let all = heard().into_iter();
    all.filter(|(level, _)| *level <= Level::INFO).collect()
}

#[tokio::test(start_paused = true)]
async fn a_leader_whose_renewals_fail_says_so_once_and_once_that_it_is_over() {
    listen();
    let wire = Wire::new(MemoryStore::new(1));
    let leadership = wire.election(config()).campaign(b"a").await.unwrap();
    wire.rule(|call, _| match call {
        Call::Renew | Call::Wait => Trouble::fails(ErrorKind::Unavailable),
        _ => Trouble::default(),
    });
    wire.store.expire(99);
    let before = wire.sent(Call::Renew).len();
    let loud = loud_for(8.0).await;
    assert!(wire.sent(Call::Renew).len() > before + 10);
    let [(Level::WARN, line)] = &loud[..] else {
        panic!("one warning was expected: {loud:#?}");
    };
    assert!(line.contains("a fault of the test"), "{line}");
    wire.rule(|_, _| Trouble::default());
    let loud = loud_for(8.0).await;
    let [(Level::INFO, line)] = &loud[..] else {
        panic!("one line of the end was expected: {loud:#?}");
    };
    assert!(line.contains("confirmed again"), "{line}");
    assert!(leadership.is_valid());
}

#[tokio::test(start_paused = true)]
async fn a_leader_without_progress_is_told_of_once() {
    listen();
    let election = MemoryElection::simulated(config().with_renew_while(|| false), 1);
    let leadership = election.campaign(b"a").await.unwrap();
    let loud = loud_for(20.0).await;
    let [(Level::WARN, stalls), (Level::INFO, lost)] = &loud[..] else {
        panic!("a warning and the loss were expected: {loud:#?}");
    };
    assert!(stalls.contains("no progress"), "{stalls}");
    assert!(lost.contains("leads no longer"), "{lost}");
    drop(leadership);
}

#[tokio::test(start_paused = true)]
async fn a_campaign_on_an_absent_store_says_so_after_a_lease_and_once_a_minute() {
    listen();
    let wire = Wire::new(MemoryStore::new(1));
    wire.rule(|_, _| Trouble::fails(ErrorKind::Unavailable));
    let election = wire.election(config()).with_name("jobs");
    let campaign = spawn_campaign(&election, b"a");
    let loud = loud_for(9.0).await;
    assert!(loud.is_empty(), "{loud:#?}");
    let loud = loud_for(60.0).await;
    let [(Level::WARN, line)] = &loud[..] else {
        panic!("one warning was expected: {loud:#?}");
    };
    for part in ["a fault of the test", "a place in the queue", "jobs"] {
        assert!(line.contains(part), "{part}: {line}");
    }
    assert_eq!(loud_for(120.0).await.len(), 2, "one a minute");
    wire.rule(|_, _| Trouble::default());
    let loud = loud_for(3.0).await;
    let told: Vec<_> = loud.iter().map(|(level, _)| *level).collect();
    assert_eq!(told, [Level::INFO, Level::INFO], "{loud:#?}");
    assert!(loud[0].1.contains("answers again"), "{loud:#?}");
    campaign.await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn an_observer_without_its_store_says_so_once_a_minute_and_when_it_is_over() {
    listen();
    let wire = Wire::new(MemoryStore::new(1));
    wire.rule(|_, _| Trouble::fails(ErrorKind::Unavailable));
    let election = wire.election(config());
    let seen = election.observe();
    let loud = loud_for(50.0).await;
    assert!(wire.sent(Call::Observe).len() > 40);
    // The first failed while it was begun, before anything was heard.
    assert!(loud.len() <= 1, "{loud:#?}");
    let loud = loud_for(120.0).await;
    assert_eq!(loud.len(), 2, "{loud:#?}");
    assert!(loud.iter().all(|(level, _)| *level == Level::WARN));
    wire.rule(|_, _| Trouble::default());
    let loud = loud_for(15.0).await;
    let [(Level::INFO, line)] = &loud[..] else {
        panic!("one line of the end was expected: {loud:#?}");
    };
    assert!(line.contains("follows the leader again"), "{line}");
    drop(seen);
}

#[tokio::test(start_paused = true)]
async fn a_place_that_cannot_be_given_back_is_no_trouble_of_its_own() {
    listen();
    let wire = Wire::new(MemoryStore::new(1));
    let leadership = wire.election(config()).campaign(b"a").await.unwrap();
    wire.rule(|_, _| Trouble::fails(ErrorKind::Unavailable));
    tokio::time::sleep(secs(30.0)).await;
    assert!(!leadership.is_valid());
    let before = wire.sent(Call::Leave).len();
    assert!(before > 10);
    let loud = loud_for(600.0).await;
    assert!(wire.sent(Call::Leave).len() > before + 500, "it goes on");
    assert!(loud.is_empty(), "{loud:#?}");
}
