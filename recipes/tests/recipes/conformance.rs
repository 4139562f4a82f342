//! The suite, run by each recipe.

use recipes::conformance::{CASES, Harness, run};

use crate::resources::{ForeignEtcd, Kind, OwnEtcd, PostgresServer, Served};

#[test]
fn the_suite_has_its_cases() {
    let mut names: Vec<_> = CASES.iter().map(|case| case.name).collect();
    names.sort_unstable();
    names.dedup();
    assert_eq!(names.len(), 22);
}

#[tokio::test(flavor = "multi_thread")]
async fn sqlite_passes() {
    run(&Served::start(Kind::Sqlite).await).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_file_passes() {
    run(&Served::start(Kind::File).await).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn objects_in_a_local_file_system_pass() {
    run(&Served::start(Kind::LocalObjects).await).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn objects_in_memory_pass() {
    let memory = Served::start(Kind::MemoryObjects).await;
    assert_eq!(memory.crash().await, 0, "nothing survives");
    run(&memory).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn postgres_passes() {
    run(&PostgresServer::start().await).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn an_etcd_of_others_passes() {
    run(&ForeignEtcd::start().await).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn the_etcd_of_the_election_passes() {
    run(&OwnEtcd::start().await).await;
}
