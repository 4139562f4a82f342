//! A leader or a worker that is killed: the next one goes on from the last epoch.

use std::os::unix::process::ExitStatusExt;
use std::time::Duration;

use rustix::process::Signal;
use tokio::time::Instant;

use crate::support::Stage;

#[tokio::test]
async fn after_the_leader_is_killed_another_goes_on_from_the_last_epoch() {
    let mut stage = Stage::start(2, 3).await;
    stage.add(&stage.file("one", 300_000)).await.unwrap();
    let (name, _, token) = stage.leader(0).await;
    let leader = stage.fleet.member(&name).unwrap();
    leader.kill();
    let killed = Instant::now();
    let signal = leader.ended().unwrap().signal();
    let (next, _, higher) = stage.leader(token).await;
    stage
        .until("a commit of the next leader", || async {
            (stage.head().await.id().term == higher).then_some(())
        })
        .await;
    println!("next commit after {:?}", killed.elapsed());
    assert_ne!(next, name);
    stage.fleet.member(&name).unwrap().restart().unwrap();
    stage.add(&stage.file("two", 100_000)).await.unwrap();
    let verdict = stage.expect_equal().await;
    let mut terms = verdict.history.commits.iter();
    let last_of_old = terms.rfind(|commit| commit.leader == token);
    assert!(last_of_old.is_some_and(|commit| commit.manifest.id().term == token));
    println!("killed by {signal:?}");
}

#[tokio::test]
async fn after_a_worker_is_killed_its_shards_move_from_the_last_epoch() {
    let mut stage = Stage::start(1, 3).await;
    stage.add(&stage.file("one", 600_000)).await.unwrap();
    stage.holds_shards("w2").await;
    // As a round leaves them that failed: never committed, and of whoever was there then.
    for lost in ["1-1-w1", "1-1-w2", "1-2-w2.tmp", "1-1-w9"] {
        std::fs::write(stage.output.deltas().join(lost), "never committed").unwrap();
    }
    let worker = stage.fleet.member("w2").unwrap();
    worker.kill();
    let signal = worker.ended().unwrap().signal();
    assert_eq!(signal, Some(9));
    // It stays away: the others count what it held.
    println!("{}", stage.said_of("w2", " 0 shards").await);
    stage.commits(3).await;
    stage.fleet.member("w2").unwrap().restart().unwrap();
    stage.said_of("w2", "up for").await;
    stage.add(&stage.file("two", 600_000)).await.unwrap();
    // It takes part again.
    stage.holds_shards("w2").await;
    stage.expect_equal().await;
    // Each has removed its own; what is of a worker that is not there stays.
    let mut named = Vec::from_iter(stage.deltas().await);
    named.push("1-1-w9".to_owned());
    named.sort();
    stage
        .until("exactly the named files", || async {
            let files = std::fs::read_dir(stage.output.deltas()).unwrap();
            let files = files.map(|file| file.unwrap().file_name().into_string().unwrap());
            let mut files: Vec<String> = files.collect();
            files.sort();
            (files == named).then_some(())
        })
        .await;
    println!("CASE L04 fault={}", signal.unwrap_or_default());
}

#[tokio::test]
async fn a_leader_that_is_asked_to_end_hands_over_at_once() {
    let mut stage = Stage::start(2, 2).await;
    stage.add(&stage.file("one", 100_000)).await.unwrap();
    let (name, _, token) = stage.leader(0).await;
    let asked = Instant::now();
    let leader = stage.fleet.member(&name).unwrap();
    leader.signal(Signal::TERM);
    let ended = leader.wait(Duration::from_secs(30)).await.unwrap();
    let took = asked.elapsed();
    assert_eq!(ended.code(), Some(0));
    stage.leader(token).await;
    println!(
        "ended after {took:?}, the next led after {:?}",
        asked.elapsed()
    );
    stage.expect_equal().await;
}
