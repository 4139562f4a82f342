//! Workers that come late, or cannot be reached at first.

use std::cell::Cell;
use std::time::Duration;

use crate::own_hosts::{Hosts, with_own_hosts};
use crate::support::Stage;

#[tokio::test]
async fn a_leader_without_any_worker_begins_by_itself_when_one_comes() {
    let mut stage = Stage::start(1, 0).await;
    let (_, _, token) = stage.leader(0).await;
    let path = stage.file("one", 100_000);
    let errand = stage.errand(examples::requests::RequestKind::Add(path));
    let adding = tokio::spawn(errand.run(Duration::from_secs(60)));
    stage.told(&["phase recovering"]).await;
    let leaders = stage.count(stage.keys.election() + "/").await;
    assert_eq!(stage.count(stage.keys.workers()).await, 0);
    for worker in ["w1", "w2", "w3"] {
        stage.fleet.add("compute", worker, &[]).unwrap();
        stage.said_of(worker, "up for").await;
    }
    adding.await.unwrap().unwrap();
    stage.expect_equal().await;
    assert_eq!(stage.head().await.id().term, token);
    println!("CASE L05 fault={leaders}");
}

/// How long the name is missing.
fn missing() -> Duration {
    let is_soak = std::env::var_os("SOAK").is_some();
    Duration::from_secs(if is_soak { 30 } else { 5 })
}

/// The system's resolver is asked, not a double.
#[test]
fn a_worker_whose_name_does_not_resolve_at_first_delays_nobody_and_is_used_when_it_does() {
    let name = "late_worker::a_worker_whose_name_does_not_resolve_at_first_delays_nobody_and_is_used_when_it_does";
    with_own_hosts(name, |hosts| {
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build();
        runtime.unwrap().block_on(late_name(&hosts));
    });
}

async fn late_name(hosts: &Hosts) {
    let mut stage = Stage::start(1, 1).await;
    stage.add(&stage.file("one", 50_000)).await.unwrap();
    let late = ["--advertise", "worker-2.test"];
    stage.fleet.add("compute", "w2", &late).unwrap();
    // Since when, which error, when next.
    let status = stage
        .told(&[
            "worker w2 0 shards",
            "failed attempts, last: ",
            ", next in ",
        ])
        .await;
    println!("{status}");
    let before = stage.history().await.commits.len();
    // The wait is the fault itself: the name is missing for so long.
    tokio::time::sleep(missing()).await;
    let missed = stage.status().await;
    assert!(missed.contains("worker w2 0 shards"), "{missed}");
    let during = stage.history().await.commits.len() - before;
    assert!(
        during > 5,
        "the other worker is not delayed: {during} commits"
    );
    let failed = |line: &str| number_before(line, " failed attempts");
    let line = stage.said_of("w2", "failed attempts").await;
    hosts.add("worker-2.test");
    let appeared = tokio::time::Instant::now();
    // The first attempt that begins after that is the last one: so it is used within one
    // pause, and each of these is within the cap.
    let known = failed(&line);
    let most = Cell::new(known);
    stage
        .until("a session of w2", || async {
            let status = stage.status().await;
            let line = status.lines().find(|line| line.starts_with("worker w2 "))?;
            most.set(most.get().max(failed(line)));
            if let Some((_, wait)) = line.split_once("next in ") {
                let seconds: f64 = wait.trim_end_matches(" s").parse().unwrap();
                assert!(seconds <= 5.0, "{line}");
            }
            line.contains("up for").then_some(())
        })
        .await;
    println!("a session {:?} after the name appeared", appeared.elapsed());
    // One may have been under way, or failed since the status was told.
    let most = most.get();
    assert!(
        most <= known + 1,
        "{known} attempts had failed, then {most}"
    );
    stage.add(&stage.file("two", 300_000)).await.unwrap();
    stage.expect_equal().await;
    let deltas = std::fs::read_dir(stage.output.deltas()).unwrap();
    let names = deltas.map(|entry| entry.unwrap().file_name().into_string().unwrap());
    let of_late = names.filter(|name| name.ends_with("-w2")).count();
    assert!(of_late > 0, "it has counted");
}

/// The number that stands before `what`; zero where that is not said.
fn number_before(line: &str, what: &str) -> u64 {
    let before = line.split_once(what).map_or("0", |(before, _)| before);
    let number = before.rsplit(' ').next().unwrap_or_default();
    number.parse().unwrap()
}
