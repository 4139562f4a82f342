//! E11: a graceful stop hands over at once.

use std::time::Duration;

use tokio::time::Instant;

use super::{
    child::{Said, Words},
    passed,
};
use crate::{join, proxy::Proxy, queued, server::Etcd};

const TTL: Duration = Duration::from_secs(60);

fn is_leading(said: Said) -> bool {
    matches!(said, Said::Leads { .. })
}

#[tokio::test(flavor = "multi_thread")]
async fn a_terminated_leader_hands_over_within_a_second() {
    let etcd = Etcd::start().await;
    let election = join(&etcd, 60).await;
    let mut words = Words::new();
    let mut leader = words.start(0, &[etcd.endpoint()], TTL);
    words.until(|_, said| is_leading(said)).await;
    let _standby = words.start(1, &[etcd.endpoint()], TTL);
    queued(&election, 2).await;

    leader.signal("TERM");
    let began = Instant::now();
    words
        .until(|number, said| number == 1 && is_leading(said))
        .await;
    let took = began.elapsed();
    assert!(took < Duration::from_secs(1), "{took:?}");
    assert_eq!(leader.ended().await, (None, Some(0)));
    let revoked = etcd.metric(&["etcd_debugging_lease_revoked_total"]).await;
    passed("E11", revoked);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_terminated_leader_without_etcd_ends_within_the_limit() {
    let mut etcd = Etcd::start().await;
    let proxy = Proxy::start(etcd.port()).await;
    let mut words = Words::new();
    let mut leader = words.start(0, &[proxy.endpoint()], TTL);
    words.until(|_, said| is_leading(said)).await;

    etcd.kill();
    leader.signal("TERM");
    let began = Instant::now();
    assert_eq!(leader.ended().await, (None, Some(0)));
    let took = began.elapsed();
    // Twice the renew timeout of 1 s, and what a busy machine needs.
    assert!(took < Duration::from_secs(4), "{took:?}");
    passed("E11-without-etcd", proxy.refused());
}
