//! Hunts alarms about what is no trouble: a lease that someone has revoked, a key that
//! someone has deleted, and giving up what is gone.

use std::time::Duration;

use leader_election::{Loss, Resigned, etcd::EtcdElection};
use tracing::Level;

use crate::{
    config, lead,
    lines::{heard, listen},
    server::Etcd,
    soon,
};

// On one thread: what is heard is of this test.
#[tokio::test]
async fn giving_up_a_lease_that_is_gone_is_no_trouble() {
    listen();
    let etcd = Etcd::start().await;
    let mut client = etcd.client().await;
    let mut held = Vec::new();
    for name in ["deleted", "revoked"] {
        let election = EtcdElection::connect([etcd.endpoint()], name, config(3)).await;
        let election = election.unwrap();
        held.push((lead(&election, b"a").await, election));
    }
    heard();
    for ((leadership, election), revoked) in held.iter().zip([false, true]) {
        let key = election.leader_key(leadership);
        if revoked {
            let found = client.get(key, None).await.unwrap();
            let lease = found.kvs()[0].lease();
            client.lease_revoke(lease).await.unwrap();
        } else {
            client.delete(key, None).await.unwrap();
        }
        assert_eq!(soon(leadership.lost()).await, Loss::Removed);
        assert_eq!(leadership.resign().await, Resigned::AlreadyOver);
    }
    drop(held);
    // What is left to do is done in the background, within a TTL.
    tokio::time::sleep(Duration::from_secs(3)).await;
    let seen = heard();
    assert!(!seen.is_empty(), "nothing is heard at all");
    let loud: Vec<_> = seen
        .iter()
        .filter(|(level, _)| *level < Level::INFO)
        .collect();
    assert!(loud.is_empty(), "{loud:#?}");
    // A deleted key leaves its lease behind, which ends by itself.
    let leases = client.leases().await.unwrap();
    println!("leases left: {:?}", leases.leases());
}
