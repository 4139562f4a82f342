//! What a user adds: in effect once, or not at all.

use std::process::Command;
use std::time::Duration;

use etcd_client::{PutOptions, Txn, TxnOp};
use examples::etcd::{Failed, told};
use examples::requests::RequestKind;

use crate::support::Stage;

/// In how many commits this input was added.
async fn times_applied(stage: &Stage, path: &std::path::Path) -> usize {
    let history = stage.history().await;
    let applied = history.commits.iter().flat_map(|c| &c.manifest.applied);
    let name = path.display().to_string();
    applied.filter(|a| a.says.starts_with(&name)).count()
}

async fn told_by(stage: &Stage) -> String {
    told(&stage.link, &stage.keys).await.unwrap()
}

#[tokio::test]
async fn what_is_added_just_before_the_leader_is_killed_is_counted_once() {
    let mut stage = Stage::start(2, 2).await;
    stage.add(&stage.file("one", 200_000)).await.unwrap();
    let mut token = 0;
    let mut killed = 0;
    let mut files = Vec::new();
    // At several moments of its service: asked for, prepared, committed.
    for (round, delay) in [0, 60, 150, 300].into_iter().enumerate() {
        let (name, _, now) = stage.leader(token).await;
        token = now;
        let path = stage.file(&format!("file-{round}"), 20_000);
        let errand = stage.errand(RequestKind::Add(path.clone()));
        let adding = tokio::spawn(errand.run(Duration::from_secs(60)));
        tokio::time::sleep(Duration::from_millis(delay)).await;
        let leader = stage.fleet.member(&name).unwrap();
        leader.kill();
        killed += usize::from(leader.ended().is_some_and(|status| !status.success()));
        leader.restart().unwrap();
        adding.await.unwrap().unwrap();
        // Answered: so it is durable already.
        assert_eq!(times_applied(&stage, &path).await, 1);
        files.push(path);
    }
    stage.expect_equal().await;
    for path in files {
        assert_eq!(times_applied(&stage, &path).await, 1);
    }
    println!("leaders killed: {killed}");
}

#[tokio::test]
async fn what_finds_no_room_names_the_missing_worker_and_leaves_nothing_behind() {
    let mut stage = Stage::start(1, 0).await;
    let fleet = &mut stage.fleet;
    fleet.add("compute", "w1", &["--slots", "1"]).unwrap();
    let unresolvable = ["--advertise", "worker-2.invalid:7000"];
    fleet.add("compute", "w2", &unresolvable).unwrap();
    // One shard, which is open for as long as nobody reads to its end.
    stage.add(&stage.file("small", 3_000)).await.unwrap();
    stage.said_of("w2", " failed attempts, last: ").await;
    // More shards than the one slot of the worker that is up.
    let large = stage.file("large", 50_000);
    let errand = stage.errand(RequestKind::Add(large.clone()));
    let failed = errand.run(Duration::from_secs(3)).await.unwrap_err();
    let Failed::Withdrawn(status) = &failed else {
        panic!("{failed:?}")
    };
    assert!(status.contains("waits for a worker with room"), "{status}");
    assert!(status.contains("missing: w2 ("), "{status}");
    assert!(status.contains("failed attempts"), "{status}");
    assert_eq!(stage.count(stage.keys.requests()).await, 0);
    stage.one_part_stays().await;
    assert_eq!(times_applied(&stage, &large).await, 0);
    // Nobody reads what it says: what was done was done all the same.
    let (reader, unread) = std::io::pipe().unwrap();
    drop(reader);
    let mut status = Command::new(env!("CARGO_BIN_EXE_meta"));
    status.args(["status", "--etcd", stage.etcd.endpoint()]);
    assert_eq!(status.stdout(unread).status().unwrap().code(), Some(0));
    let told = told_by(&stage).await;
    assert!(told.starts_with("leader "), "{told}");
    let (name, _, _) = stage.leader(0).await;
    stage.fleet.member(&name).unwrap().kill();
    stage
        .until("the end of its lease", async || {
            let told = told_by(&stage).await;
            told.starts_with("nobody leads now").then_some(())
        })
        .await;
    stage.fleet.member(&name).unwrap().restart().unwrap();
    // The loop goes on all the while, and with room it is served.
    stage.commits(2).await;
    stage.fleet.add("compute", "w3", &[]).unwrap();
    stage.add(&large).await.unwrap();
    stage.expect_equal().await;
}

#[tokio::test]
async fn what_is_added_during_a_recovery_is_served_after_it() {
    let mut stage = Stage::start(1, 2).await;
    stage.add(&stage.file("one", 200_000)).await.unwrap();
    for worker in ["w1", "w2"] {
        stage.fleet.member(worker).unwrap().kill();
    }
    stage.told(&["phase recovering"]).await;
    let path = stage.file("two", 50_000);
    let errand = stage.errand(RequestKind::Add(path.clone()));
    let adding = tokio::spawn(errand.run(Duration::from_secs(60)));
    stage
        .until("the request", || async {
            (stage.count(stage.keys.requests()).await == 1).then_some(())
        })
        .await;
    assert_eq!(times_applied(&stage, &path).await, 0);
    for worker in ["w1", "w2"] {
        stage.fleet.member(worker).unwrap().restart().unwrap();
    }
    adding.await.unwrap().unwrap();
    assert_eq!(times_applied(&stage, &path).await, 1);
    // What cannot be done is refused by name.
    let missing = stage.add(&path.with_extension("none")).await.unwrap_err();
    assert!(missing.to_string().contains("two.none"), "{missing}");
    stage.expect_equal().await;
}

/// Asks for all of it in one revision: the leader takes it in the same round.
async fn ask_at_once(stage: &Stage, asked: &[(&str, RequestKind)]) {
    let mut client = stage.client().await;
    let lease = client.lease_grant(60, None).await.unwrap().id();
    let puts = asked.iter().map(|(id, asks)| {
        let under = PutOptions::new().with_lease(lease);
        TxnOp::put(stage.keys.request(id), asks.to_string(), Some(under))
    });
    let txn = Txn::new().and_then(puts.collect::<Vec<_>>());
    client.txn(txn).await.unwrap();
}

async fn answer_to(stage: &Stage, id: &str) -> String {
    stage
        .until("an answer", async || {
            let mut client = stage.client().await;
            let read = client.get(stage.keys.answer(id), None).await.unwrap();
            let answer = read.kvs().first()?.value_str().unwrap();
            Some(answer.to_owned())
        })
        .await
}

#[tokio::test]
async fn what_is_added_after_the_end_is_refused_at_once() {
    let stage = Stage::start(1, 1).await;
    stage.add(&stage.file("one", 400_000)).await.unwrap();
    let late = stage.file("late", 3_000);
    let asked = [
        ("a", RequestKind::Finish),
        ("b", RequestKind::Add(late.clone())),
        ("c", RequestKind::Finish),
    ];
    ask_at_once(&stage, &asked).await;
    for (id, expected) in [("a", "ok "), ("b", "refused "), ("c", "ok ")] {
        let answer = answer_to(&stage, id).await;
        assert!(answer.starts_with(expected), "{answer}");
    }
    let refused = stage.add(&late).await.unwrap_err();
    assert!(matches!(&refused, Failed::Refused(why) if why.contains("told to finish")));
    stage.expect_equal().await;
    // Nobody is left to answer.
    let told = told_by(&stage).await;
    assert!(told.starts_with("the chain has ended"), "{told}");
    let refused = stage.add(&late).await.unwrap_err();
    assert!(matches!(refused, Failed::Refused(_)), "{refused:?}");
    assert_eq!(times_applied(&stage, &late).await, 0);
    stage.one_part_stays().await;
}

#[tokio::test]
async fn what_is_added_together_with_the_end_is_refused_and_leaves_nothing_behind() {
    let stage = Stage::start(1, 1).await;
    let one = stage.file("one", 3_000);
    let bytes = std::fs::metadata(&one).unwrap().len();
    stage.add(&one).await.unwrap();
    // The chain ends with the very commit that serves the request.
    stage.told(&[&format!("bytes {bytes} of {bytes}")]).await;
    let late = stage.file("late", 3_000);
    let asked = [
        ("a", RequestKind::Finish),
        ("b", RequestKind::Add(late.clone())),
    ];
    ask_at_once(&stage, &asked).await;
    let answer = answer_to(&stage, "b").await;
    assert!(answer.starts_with("refused "), "{answer}");
    stage.expect_equal().await;
    assert_eq!(times_applied(&stage, &late).await, 0);
    stage.one_part_stays().await;
}
