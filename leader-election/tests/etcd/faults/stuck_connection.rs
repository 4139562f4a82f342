//! A connection that carries several watches falls silent, or is pinged.

use std::time::Duration;

use leader_election::Election;
use tokio::time::sleep;

use super::proven;
use crate::{campaign, config, join, join_at, lead, proxy::Proxy, queued, server::Etcd, soon};

#[tokio::test(flavor = "multi_thread")]
async fn a_stuck_connection_of_many_watches_is_replaced_once() {
    let etcd = Etcd::start().await;
    let proxy = Proxy::start(etcd.port()).await;
    let (election, direct) = (join_at(&[proxy.endpoint()], 3).await, join(&etcd, 3).await);
    let leadership = lead(&election, b"a").await;
    let all: Vec<_> = (0..5).map(|_| campaign(&election, b"b")).collect();
    let mut seen = election.observe();
    queued(&election, 6).await;
    soon(seen.wait_for(Option::is_some)).await.unwrap();
    assert_eq!(proxy.connections(), 2, "one for watches, one for renewals");

    proxy.mute(1);
    let replaced = async {
        while proxy.connections() == 2 {
            sleep(Duration::from_millis(10)).await;
        }
    };
    soon(replaced).await;
    // All watches notice: each after at most twice the renew timeout, and a pause.
    sleep(4 * config(3).renew_timeout).await;
    assert_eq!(proxy.connections(), 3);
    // They live on the new one.
    assert!(leadership.is_valid());
    assert_eq!(direct.candidates().await.unwrap().len(), 6);
    leadership.resign().await;
    let next = soon(seen.wait_for(|leader| {
        leader
            .as_ref()
            .is_some_and(|leader| leader.token > leadership.token())
    }));
    next.await.unwrap();
    all.iter().for_each(|task| task.abort());
    proven("stuck connection", proxy.swallowed());
}

/// Opening a connection and a renewal take four round trips, a renewal alone takes three.
#[tokio::test(flavor = "multi_thread")]
async fn an_etcd_that_is_far_away_is_led_over_connections_that_are_kept() {
    let etcd = Etcd::start().await;
    let proxy = Proxy::start(etcd.port()).await;
    let far = config(10).renew_timeout * 27 / 100;
    proxy.delay_down(far);
    let leadership = lead(&join_at(&[proxy.endpoint()], 10).await, b"a").await;
    let first = leadership.deadline();
    let renewed = async {
        while leadership.deadline() == first {
            sleep(Duration::from_millis(10)).await;
        }
    };
    soon(renewed).await;
    assert_eq!(proxy.connections(), 2);
    proven("far away", proxy.delayed());
}

/// etcd ends connections that ping it too often, which takes it half a minute to see.
#[tokio::test(flavor = "multi_thread")]
#[ignore = "takes 90 s"]
async fn etcd_does_not_end_connections_for_their_pings() {
    let etcd = Etcd::start().await;
    let proxy = Proxy::start(etcd.port()).await;
    let election = join_at(&[proxy.endpoint()], 300).await;
    let leadership = lead(&election, b"a").await;
    let waits = campaign(&election, b"b");
    let _seen = election.observe();
    queued(&election, 2).await;
    sleep(Duration::from_secs(90)).await;
    assert!(leadership.is_valid());
    assert_eq!((proxy.connections(), proxy.open()), (2, 2));
    waits.abort();
    proven("pings", proxy.pings());
}
