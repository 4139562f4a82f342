//! Workers that stand still, are removed, or hold nothing: the loop goes on.

use rustix::process::Signal;
use tokio::time::Instant;

use crate::support::{Stage, stopped_threads};

async fn freeze(stage: &mut Stage, worker: &str) -> usize {
    stage.fleet.member(worker).unwrap().signal(Signal::STOP);
    let pid = stage.fleet.member(worker).unwrap().id();
    stage
        .until("a stopped worker", || async {
            (stopped_threads(pid) > 0).then_some(())
        })
        .await;
    stopped_threads(pid)
}

#[tokio::test]
async fn a_frozen_worker_is_dropped_by_name_and_joins_again_when_it_wakes() {
    let mut stage = Stage::start(1, 3).await;
    stage.add(&stage.file("one", 2_000_000)).await.unwrap();
    stage.holds_shards("w2").await;
    let stopped = freeze(&mut stage, "w2").await;
    // The registry forgets it, and so does the pool: the round fails by name.
    stage
        .until("two workers", || async {
            (stage.count(stage.keys.workers()).await == 2).then_some(())
        })
        .await;
    stage.commits(3).await;
    println!("CASE L07 fault={stopped}");
    stage.fleet.member("w2").unwrap().signal(Signal::CONT);
    stage.said_of("w2", "up for").await;
    stage.commits(3).await;
    stage.expect_equal().await;
    println!("CASE L08 fault={stopped}");
}

#[tokio::test]
async fn a_worker_that_is_removed_while_a_barrier_waits_for_it_fails_the_round_at_once() {
    let mut stage = Stage::start(1, 3).await;
    stage.add(&stage.file("one", 2_000_000)).await.unwrap();
    stage.holds_shards("w2").await;
    let stopped = freeze(&mut stage, "w2").await;
    let key = stage.keys.worker("w2");
    let removed = stage.client().await.delete(key, None).await.unwrap();
    assert_eq!(removed.deleted(), 1);
    let since = Instant::now();
    stage.commits(2).await;
    println!("second commit without it after {:?}", since.elapsed());
    stage
        .until("a status without it", || async {
            (!stage.status().await.contains("worker w2 ")).then_some(())
        })
        .await;
    stage.fleet.member("w2").unwrap().signal(Signal::CONT);
    stage.expect_equal().await;
    println!("CASE L01 fault={stopped}");
}

#[tokio::test]
async fn a_worker_without_shards_that_breaks_costs_no_round() {
    let mut stage = Stage::start(1, 3).await;
    // One slice, so one shard: two workers hold none.
    stage.add(&stage.file("one", 1_000)).await.unwrap();
    let idle = stage
        .until("two workers without shards", || async {
            let status = stage.status().await;
            let up = |shards: &str| {
                let up = status.lines().filter(|line| line.contains(shards));
                let names = up.filter_map(|line| line.split(' ').nth(1));
                names.map(str::to_owned).collect::<Vec<String>>()
            };
            let (idle, busy) = (up(" 0 shards, up"), up(" 1 shards, up"));
            (idle.len() == 2 && busy.len() == 1).then(|| idle[0].clone())
        })
        .await;
    let before = stage.commits(1).await.id();
    let worker = stage.fleet.member(&idle).unwrap();
    worker.kill();
    let killed = worker.ended().is_some_and(|status| !status.success());
    let after = stage.commits(5).await.id();
    // A recovery would take a number for its reset: there is no gap.
    let history = stage.history().await;
    let epochs = history.commits.iter().map(|commit| commit.manifest.id());
    let numbers: Vec<u64> = epochs
        .filter(|epoch| epoch.order() >= before.order() && epoch.order() <= after.order())
        .map(|epoch| epoch.n)
        .collect();
    assert!(
        numbers.windows(2).all(|pair| pair[1] == pair[0] + 1),
        "{numbers:?}"
    );
    stage.expect_equal().await;
    println!("CASE L10 fault={}", u8::from(killed));
}

#[tokio::test]
async fn workers_that_lost_every_leader_stand_still_and_go_on_with_the_next() {
    let mut stage = Stage::start(1, 2).await;
    stage.add(&stage.file("one", 2_000_000)).await.unwrap();
    let (name, _, token) = stage.leader(0).await;
    let leader = stage.fleet.member(&name).unwrap();
    leader.kill();
    let killed = leader.ended().is_some_and(|status| !status.success());
    let pids: Vec<u32> = ["w1", "w2"]
        .map(|worker| stage.fleet.member(worker).unwrap().id())
        .to_vec();
    // What the kernel has counted of reads from files does not rise any more.
    let read = |pid: &u32| {
        let io = std::fs::read_to_string(format!("/proc/{pid}/io")).unwrap();
        let chars = io.lines().find_map(|line| line.strip_prefix("rchar: "));
        chars.unwrap().parse::<u64>().unwrap()
    };
    stage
        .until("workers that read nothing", || async {
            let before: Vec<u64> = pids.iter().map(read).collect();
            tokio::time::sleep(std::time::Duration::from_millis(500)).await;
            let after: Vec<u64> = pids.iter().map(read).collect();
            // A few bytes are those of the runtime.
            let most = before.iter().zip(&after).map(|(a, b)| b - a).max();
            (most.unwrap() < 4096).then_some(())
        })
        .await;
    let head = stage.head().await.id();
    for worker in ["w1", "w2"] {
        assert!(stage.fleet.member(worker).unwrap().ended().is_none());
    }
    stage.fleet.member(&name).unwrap().restart().unwrap();
    stage.leader(token).await;
    stage.commits(2).await;
    let verdict = stage.expect_equal().await;
    let commits = verdict.history.commits.iter();
    let next = commits.map(|c| &c.manifest).find(|m| m.id().term > token);
    assert_eq!(next.unwrap().predecessor(), head);
    println!("CASE L11 fault={}", u8::from(killed));
}
