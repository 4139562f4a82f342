//! Workers that come late, or cannot be reached at first.

use std::path::Path;
use std::process::Command;
use std::time::Duration;

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

/// Set in the process that has a hosts file of its own.
const HOSTS: &str = "CLUSTER_HOSTS";

/// How long the name is missing.
const MISSING: Duration = Duration::from_secs(3);

/// The system's resolver is asked, not a double: the name is missing from the hosts file
/// of the test's own mount namespace, and then there.
#[test]
fn a_worker_whose_name_does_not_resolve_at_first_delays_nobody_and_is_used_when_it_does() {
    if let Some(hosts) = std::env::var_os(HOSTS) {
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build();
        return runtime.unwrap().block_on(with_own_hosts(Path::new(&hosts)));
    }
    let folder = tempfile::tempdir().unwrap();
    let hosts = folder.path().join("hosts");
    std::fs::write(&hosts, "127.0.0.1 localhost\n").unwrap();
    let script = format!("mount --bind \"${HOSTS}\" /etc/hosts && exec \"$@\"");
    let name = "late_worker::a_worker_whose_name_does_not_resolve_at_first_delays_nobody_and_is_used_when_it_does";
    let status = Command::new("unshare")
        .args(["--mount", "sh", "-c", &script, "sh"])
        .arg(std::env::current_exe().unwrap())
        .args(["--exact", name, "--nocapture"])
        .env(HOSTS, &hosts)
        .status()
        .expect("unshare is missing: install the package util-linux");
    assert!(
        status.success(),
        "in its own mount namespace (needs root): {status}"
    );
}

async fn with_own_hosts(hosts: &Path) {
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
    tokio::time::sleep(MISSING).await;
    let missed = stage.status().await;
    assert!(missed.contains("worker w2 0 shards"), "{missed}");
    let during = stage.history().await.commits.len() - before;
    assert!(
        during > 5,
        "the other worker is not delayed: {during} commits"
    );
    // In place: the mount is of the file, not of its name.
    std::fs::write(hosts, "127.0.0.1 localhost worker-2.test\n").unwrap();
    let appeared = tokio::time::Instant::now();
    stage.said_of("w2", "up for").await;
    println!("a session {:?} after the name appeared", appeared.elapsed());
    stage.add(&stage.file("two", 300_000)).await.unwrap();
    stage.expect_equal().await;
    let deltas = std::fs::read_dir(stage.output.deltas()).unwrap();
    let names = deltas.map(|entry| entry.unwrap().file_name().into_string().unwrap());
    let of_late = names.filter(|name| name.ends_with("-w2")).count();
    assert!(of_late > 0, "it has counted");
}
