//! Hunts candidates that rely on a watch whose answers no longer come, while their
//! renewals are served.
#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::time::Duration;

use leader_election::{Loss, Resigned};
use tokio::time::Instant;

use crate::{
    campaign, config, join, join_at, lead, proxy::Proxy, queued, server::Etcd, soon,
    together::together, watching,
};

const TTL: u64 = 6;
/// Beyond the bounds that are claimed: for a machine with other work to do.
const SLACK: Duration = Duration::from_secs(1);
/// The first connection has the watches, and no other call while a candidate waits or
/// leads; the second one has the renewals.
const WATCHES: u64 = 1;
const RENEWALS: u64 = 2;

together! {
    watches_are_stuck:
    a_leader_without_its_watch_learns_from_a_renewal_that_its_key_is_gone,
    a_candidate_without_its_watch_opens_a_new_one_and_wins,
}

async fn a_leader_without_its_watch_learns_from_a_renewal_that_its_key_is_gone() {
    let etcd = Etcd::start().await;
    let proxy = Proxy::start(etcd.port()).await;
    let election = join_at(&[proxy.endpoint()], TTL).await;
    let leadership = lead(&election, b"a").await;
    watching(&etcd, 1).await;
    // A watch that is opened anew stays without answers, too.
    proxy.mute_all_but(RENEWALS);
    let mut client = etcd.client().await;
    let key = election.leader_key(&leadership);
    client.delete(key, None).await.unwrap();
    let began = Instant::now();
    assert_eq!(soon(leadership.lost()).await, Loss::Removed);
    let took = began.elapsed();
    println!("lost after {took:?}, {} bytes swallowed", proxy.swallowed());
    let bound = config(TTL).renew_every + config(TTL).renew_timeout;
    assert!(took < bound + SLACK, "{took:?}, not {bound:?}");
    assert!(proxy.swallowed() > 0);
}

async fn a_candidate_without_its_watch_opens_a_new_one_and_wins() {
    let etcd = Etcd::start().await;
    let proxy = Proxy::start(etcd.port()).await;
    let (leader, waits) = (
        join(&etcd, TTL).await,
        join_at(&[proxy.endpoint()], TTL).await,
    );
    let leadership = lead(&leader, b"a").await;
    let next = campaign(&waits, b"b");
    queued(&leader, 2).await;
    let token = leader.candidates().await.unwrap()[1].token;
    watching(&etcd, 3).await;
    proxy.mute(WATCHES);
    assert_eq!(leadership.resign().await, Resigned::Released);
    let began = Instant::now();
    let next = soon(next).await.unwrap();
    let took = began.elapsed();
    println!("won after {took:?}, {} bytes swallowed", proxy.swallowed());
    let bound = config(TTL).renew_timeout * 2;
    assert!(took < bound + SLACK, "{took:?}, not {bound:?}");
    assert!(proxy.swallowed() > 0);
    assert_eq!(next.token(), token, "its place was never lost");
}
