//! E02: a resign whose request never reached etcd.

use std::time::Duration;

use leader_election::{Election, ElectionConfig, Loss, Resigned, etcd::EtcdElection};
use tokio::time::Instant;

use super::passed;
use crate::{
    config, lead,
    proxy::{Proxy, Way},
    queued,
    server::Etcd,
    soon,
};

const LIMIT: Duration = Duration::from_millis(500);

/// A lease of 30 s, and calls that need not wait for 5 s.
fn patient() -> ElectionConfig {
    config(30).with_renew_timeout(LIMIT)
}

#[tokio::test(flavor = "multi_thread")]
async fn an_unsent_resign_ends_the_work_and_is_sent_later() {
    let etcd = Etcd::start().await;
    let proxy = Proxy::start(etcd.port()).await;
    let election = EtcdElection::connect([proxy.endpoint()], "e", patient()).await;
    let leadership = lead(&election.unwrap(), b"a").await;
    let direct = crate::join(&etcd, 30).await;

    proxy.set(Way::Swallow);
    let began = Instant::now();
    assert_eq!(leadership.resign().await, Resigned::Unconfirmed);
    // Twice the renew timeout, and what a busy machine needs.
    assert!(began.elapsed() < 2 * LIMIT + Duration::from_secs(1));
    assert!(!leadership.is_valid());
    assert_eq!(leadership.lost().await, Loss::Resigned);
    assert_eq!(direct.candidates().await.unwrap().len(), 1);

    proxy.set(Way::Pass);
    let restored = Instant::now();
    while leadership.resign().await != Resigned::Released {
        assert!(restored.elapsed() < Duration::from_secs(10));
    }
    assert!(direct.candidates().await.unwrap().is_empty());
    let again = Instant::now();
    assert_eq!(leadership.resign().await, Resigned::Released);
    assert!(again.elapsed() < Duration::from_millis(100));
    passed("E02", proxy.swallowed());
}

/// The same where connections break instead: the failure comes at once, the work has
/// ended all the same, and the release is repeated without another call.
#[tokio::test(flavor = "multi_thread")]
async fn a_resign_over_a_broken_wire_is_repeated_by_itself() {
    let etcd = Etcd::start().await;
    let proxy = Proxy::start(etcd.port()).await;
    let election = EtcdElection::connect([proxy.endpoint()], "e", patient()).await;
    let election = election.unwrap();
    let leadership = lead(&election, b"a").await;
    let direct = crate::join(&etcd, 30).await;
    let standby = {
        let direct = direct.clone();
        tokio::spawn(async move { direct.campaign(b"b").await })
    };
    queued(&direct, 2).await;

    proxy.cut(true);
    assert_eq!(leadership.resign().await, Resigned::Unconfirmed);
    assert!(!leadership.is_valid());
    proxy.cut(false);
    let restored = Instant::now();
    let next = soon(standby).await.unwrap().unwrap();
    // Long before the lease of 30 s ends.
    assert!(restored.elapsed() < Duration::from_secs(5));
    assert!(next.token() > leadership.token());
    passed("E02-broken", proxy.ended());
}
