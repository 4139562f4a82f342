//! What is logged, and how loudly.

use leader_election::{Election, Loss, MemoryElection, MemoryStore, Resigned};
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
        (Call::Renew, 1) => Trouble::fails(leader_election::ErrorKind::Unavailable),
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
    assert!(failed.contains("call to the store failed"), "{failed}");
    assert!(
        panicked.contains("call to the store panicked"),
        "{panicked}"
    );
}
