//! E11: a graceful stop hands over at once.

use std::time::Duration;

use tokio::time::Instant;

use super::passed;
use crate::{
    child::{News, Orders, Words},
    join,
    proxy::Proxy,
    queued,
    server::Etcd,
};

const TTL: u64 = 60;

fn is_leading(said: News) -> bool {
    matches!(said, News::Leads { .. })
}

#[tokio::test(flavor = "multi_thread")]
async fn a_terminated_leader_hands_over_within_a_second() {
    let etcd = Etcd::start().await;
    let election = join(&etcd, 60).await;
    let mut words = Words::new();
    let endpoints = [etcd.endpoint()];
    let mut leader = words.start(0, &Orders::new(&endpoints, TTL, "first"));
    words.until(|_, said| is_leading(said)).await;
    let _standby = words.start(1, &Orders::new(&endpoints, TTL, "second"));
    queued(&election, 2).await;

    leader.ask("TERM");
    let began = Instant::now();
    words
        .until(|number, said| number == 1 && is_leading(said))
        .await;
    let took = began.elapsed();
    assert!(took < Duration::from_secs(1), "{took:?}");
    assert_eq!(leader.ended().await, Some(0));
    let revoked = etcd.metric(&["etcd_debugging_lease_revoked_total"]).await;
    passed("E11", revoked);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_terminated_leader_without_etcd_ends_within_the_limit() {
    let mut etcd = Etcd::start().await;
    let proxy = Proxy::start(etcd.port()).await;
    let mut words = Words::new();
    let endpoints = [proxy.endpoint()];
    let mut leader = words.start(0, &Orders::new(&endpoints, TTL, "first"));
    words.until(|_, said| is_leading(said)).await;

    etcd.kill();
    leader.ask("TERM");
    let began = Instant::now();
    assert_eq!(leader.ended().await, Some(0));
    let took = began.elapsed();
    // Twice the renew timeout of 1 s, and what a busy machine needs.
    assert!(took < Duration::from_secs(4), "{took:?}");
    passed("E11-without-etcd", proxy.refused());
}
