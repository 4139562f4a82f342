//! E13: giving up a lease that is gone already.

use leader_election::{Loss, Resigned};
use tracing::Level;

use super::passed;
use crate::{
    join, lead,
    lines::{heard, listen},
    server::Etcd,
    soon,
};

// On one thread: what is heard is of this test.
#[tokio::test]
async fn giving_up_a_lease_that_is_gone_is_no_error() {
    listen();
    let etcd = Etcd::start().await;
    let election = join(&etcd, 3).await;
    let leadership = lead(&election, b"a").await;
    heard();

    let mut client = etcd.client().await;
    let before = client.leases().await.unwrap().leases().len();
    let lease = client.leases().await.unwrap().leases()[0].id();
    client.lease_revoke(lease).await.unwrap();
    let after = client.leases().await.unwrap().leases().len();
    assert_eq!(soon(leadership.lost()).await, Loss::Removed);
    assert_eq!(soon(leadership.resign()).await, Resigned::AlreadyOver);
    assert_eq!(soon(leadership.resign()).await, Resigned::AlreadyOver);
    drop(leadership);
    // The next one leads at once, so nothing of the old one is left.
    let next = lead(&election, b"b").await;
    drop((next, election));
    let seen = heard();
    assert!(!seen.is_empty(), "nothing is heard at all");
    let loud = seen.iter().filter(|(level, _)| *level <= Level::WARN);
    assert_eq!(loud.count(), 0, "{seen:#?}");
    passed("E13", (before - after) as u64);
}
