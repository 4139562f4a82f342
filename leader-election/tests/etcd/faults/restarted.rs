//! etcd is started again: with its data, or without.

use std::time::Duration;

use leader_election::{Election, Loss, etcd::EtcdElection};
use tokio::time::sleep;

use super::proven;
use crate::{
    boot_time, campaign, config, join, join_at, lead, proxy::Proxy, queued, server::Etcd, soon,
    together::together,
};

together! {
    etcd_is_started_again:
    a_leader_outlives_a_restart_within_its_lease,
    a_leader_of_an_emptied_etcd_is_told_that_it_was_reset,
    a_leader_that_expired_gives_its_key_back_when_etcd_serves_again,
}

async fn a_leader_outlives_a_restart_within_its_lease() {
    let mut etcd = Etcd::start().await;
    let proxy = Proxy::start(etcd.port()).await;
    let election = join_at(&[proxy.endpoint()], 6).await;
    let leadership = lead(&election, b"a").await;
    let waits = campaign(&election, b"b");
    queued(&election, 2).await;
    let (token, deadline) = (leadership.token(), leadership.deadline());
    etcd.kill();
    // A renewal is due in the outage.
    sleep(Duration::from_millis(2200)).await;
    etcd.restart().await;
    let renewed = async {
        while leadership.deadline() <= deadline {
            assert!(leadership.is_valid());
            sleep(Duration::from_millis(10)).await;
        }
    };
    soon(renewed).await;
    assert_eq!(leadership.token(), token);
    leadership.resign().await;
    assert!(soon(waits).await.unwrap().token() > token);
    proven("restarted", proxy.refused());
}

async fn a_leader_of_an_emptied_etcd_is_told_that_it_was_reset() {
    let mut etcd = Etcd::start().await;
    let election = join(&etcd, 10).await;
    let leadership = lead(&election, b"a").await;
    let (scope, before) = (leadership.scope().to_owned(), etcd.pid());
    etcd.restart_empty().await;
    let at = boot_time();
    assert_eq!(soon(leadership.lost()).await, Loss::Reset);
    let config = config(10);
    let took = boot_time() - at;
    let bound = config.renew_every + config.renew_timeout + Duration::from_millis(500);
    assert!(took < bound, "{took:?}");

    // The same handle leads again, in another scope.
    let again = lead(&election, b"a").await;
    assert_ne!(again.scope(), scope);
    let other = EtcdElection::connect([etcd.endpoint()], "e", config)
        .await
        .unwrap();
    let mut seen = other.observe();
    let shown = soon(seen.wait_for(Option::is_some)).await.unwrap().clone();
    assert_eq!(shown.unwrap().scope, again.scope());
    proven("restarted with empty data", u64::from(etcd.pid() != before));
}

/// etcd starts all leases anew when it is back: the key of a leader that expired meanwhile
/// would block the standby for as long again.
async fn a_leader_that_expired_gives_its_key_back_when_etcd_serves_again() {
    let mut etcd = Etcd::start().await;
    let (first, second) = (join(&etcd, 5).await, join(&etcd, 5).await);
    let leadership = lead(&first, b"a").await;
    let waits = campaign(&second, b"b");
    queued(&first, 2).await;
    etcd.kill();
    assert_eq!(soon(leadership.lost()).await, Loss::Expired);
    etcd.restart().await;
    let next = soon(waits).await.unwrap();
    assert!(next.is_valid());
    // It did not have to wait for the end of a lease.
    let revoked = etcd.metric(&["etcd_debugging_lease_revoked_total"]).await;
    let expired = etcd
        .metric(&["etcd_debugging_server_lease_expired_total"])
        .await;
    assert_eq!(expired, 0, "{revoked} leases were revoked");
    proven("restarted after the deadline", revoked);
}
