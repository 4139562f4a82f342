//! A leader that stands still beyond its lease: it ends, and never commits again.

use std::os::unix::process::ExitStatusExt;
use std::time::Duration;

use etcd_client::{Compare, CompareOp, Txn, TxnOp};
use rustix::process::Signal;

use crate::support::{Stage, stopped_threads};

#[tokio::test]
async fn a_leader_that_was_stopped_beyond_its_lease_is_gone_and_never_commits() {
    let mut stage = Stage::start(2, 2).await;
    stage.add(&stage.file("one", 400_000)).await.unwrap();
    let (name, key, token) = stage.leader(0).await;
    stage.fleet.member(&name).unwrap().signal(Signal::STOP);
    let pid = stage.fleet.member(&name).unwrap().id();
    stage
        .until("a stopped leader", || async {
            (stopped_threads(pid) > 0).then_some(())
        })
        .await;
    let stopped = stopped_threads(pid);
    let (_, _, higher) = stage.leader(token).await;
    stage
        .until("a commit of the next leader", || async {
            (stage.head().await.id().term == higher).then_some(())
        })
        .await;
    let leader = stage.fleet.member(&name).unwrap();
    leader.signal(Signal::CONT);
    // The kernel's timer has fired while it stood still.
    let ended = leader.wait(Duration::from_secs(30)).await.unwrap();
    let by_kernel = ended.signal() == Some(9);
    assert!(by_kernel || ended.code() == Some(75), "{ended:?}");

    // What it would have sent is refused, however late it comes.
    let guard = Compare::create_revision(key, CompareOp::Equal, i64::try_from(token).unwrap());
    let late = Txn::new()
        .when([guard])
        .and_then([TxnOp::put(stage.keys.head(), "late", None)]);
    let late = stage.client().await.txn(late).await.unwrap();
    assert!(!late.succeeded());

    let verdict = stage.expect_equal().await;
    let commits = &verdict.history.commits;
    let first_of_next = commits.iter().position(|commit| commit.leader == higher);
    let after = &commits[first_of_next.unwrap()..];
    assert!(
        after
            .iter()
            .all(|commit| commit.manifest.id().term != token)
    );
    println!("{stopped} threads were stopped, the end: {ended}");
}

#[tokio::test]
async fn a_leader_whose_key_is_deleted_ends_and_the_next_goes_on() {
    let mut stage = Stage::start(2, 2).await;
    stage.add(&stage.file("one", 200_000)).await.unwrap();
    let (name, key, token) = stage.leader(0).await;
    let deleted = stage.client().await.delete(key, None).await.unwrap();
    assert_eq!(deleted.deleted(), 1);
    let leader = stage.fleet.member(&name).unwrap();
    let ended = leader.wait(Duration::from_secs(30)).await.unwrap();
    // The watchdog ends a process whose leadership is over.
    assert!(
        ended.code() == Some(75) || ended.signal() == Some(9),
        "{ended:?}"
    );
    stage.leader(token).await;
    stage.expect_equal().await;
}
