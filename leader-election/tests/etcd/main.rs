//! The etcd backend against a real etcd, one per test.
#![cfg(feature = "etcd")]

mod cases;
mod child;
mod cluster;
mod conformance;
mod early_takeover;
mod encrypted;
#[cfg(feature = "_fake-etcd")]
mod fake;
mod false_alarms;
mod faults;
mod first_steps;
mod go_gaps;
mod guarded_commit;
mod herd;
mod interop;
mod leaked_places;
#[path = "../support/lines.rs"]
mod lines;
mod overlap;
mod phantom_win;
mod proxy;
mod rebuilt_store;
mod record;
mod server;
mod slow_handover;
mod stuck_watch;
mod takeover;
mod together;
mod users;
mod wrong_input;

use std::time::Duration;

use etcd_client::{GetOptions, KeyValue};
use leader_election::{Election, ElectionConfig, Leadership, etcd::EtcdElection};
use server::Etcd;
use tokio::{task::JoinHandle, time::timeout};

/// A bound that only a hang exceeds.
const HANG: Duration = Duration::from_secs(60);

pub(crate) fn config(ttl: u64) -> ElectionConfig {
    ElectionConfig::for_ttl(Duration::from_secs(ttl))
}

/// Takes part in the election `e` of this etcd.
pub(crate) async fn join(etcd: &Etcd, ttl: u64) -> EtcdElection {
    join_at(&[etcd.endpoint()], ttl).await
}

pub(crate) async fn join_at(endpoints: &[String], ttl: u64) -> EtcdElection {
    let endpoints = endpoints.iter().cloned();
    let joined = EtcdElection::connect(endpoints, "e", config(ttl)).await;
    joined.expect("settings and credentials are right")
}

pub(crate) async fn lead(election: &EtcdElection, value: &[u8]) -> Leadership {
    let won = timeout(HANG, election.campaign(value)).await;
    won.expect("leads in time").expect("no final error")
}

/// Campaigns in the background.
pub(crate) fn campaign(election: &EtcdElection, value: &'static [u8]) -> JoinHandle<Leadership> {
    let election = election.clone();
    tokio::spawn(async move { election.campaign(value).await.expect("no final error") })
}

/// Returns the key of the candidate with this token, and its lease.
pub(crate) async fn key_and_lease(etcd: &Etcd, token: u64) -> (Vec<u8>, i64) {
    let options = GetOptions::new().with_prefix();
    let keys = etcd.client().await.get("e/", Some(options)).await;
    let keys = keys.expect("etcd serves");
    let created = |kv: &&KeyValue| u64::try_from(kv.create_revision()) == Ok(token);
    let kv = keys.kvs().iter().find(created).expect("a candidate");
    (kv.key().to_vec(), kv.lease())
}

/// Waits until so many candidates are in the queue.
pub(crate) async fn queued(election: &EtcdElection, count: usize) {
    let all = async {
        while election.candidates().await.map_or(0, |all| all.len()) != count {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    };
    timeout(HANG, all).await.expect("the queue fills");
}

/// Waits until etcd has so many watches: one of each candidate's own key, one of the key
/// before it.
pub(crate) async fn watching(etcd: &Etcd, count: u64) {
    let all = async {
        while etcd.metric(&["etcd_debugging_mvcc_watcher_total"]).await != count {
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    };
    timeout(HANG, all).await.expect("all watch");
}

/// Whether the long versions of the tests are wanted.
pub(crate) fn soak() -> bool {
    std::env::var_os("SOAK").is_some_and(|soak| soak == "1")
}

/// Waits for what must happen.
pub(crate) async fn soon<T>(what: impl Future<Output = T>) -> T {
    timeout(HANG, what).await.expect("happens in time")
}

/// The machine's time since boot, on which deadlines are.
pub(crate) fn boot_time() -> Duration {
    let now = rustix::time::clock_gettime(rustix::time::ClockId::Boottime);
    let secs = u64::try_from(now.tv_sec).expect("after boot");
    let nanos = u32::try_from(now.tv_nsec).expect("less than a second");
    Duration::new(secs, nanos)
}
