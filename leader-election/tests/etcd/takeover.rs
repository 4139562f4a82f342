//! Hunts successors that begin before a takeover delay is over, or on a lease that is not
//! theirs any more.
#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::time::Duration;

use leader_election::{Election, Leadership, etcd::EtcdElection};
use tokio::time::Instant;

use crate::{config, lead, queued, server::Etcd, soon, together::together};

const DELAY: Duration = Duration::from_millis(500);

async fn delayed(etcd: &Etcd, ttl: u64, delay: Duration) -> EtcdElection {
    let config = config(ttl).with_takeover_delay(delay);
    let joined = EtcdElection::connect([etcd.endpoint()], "e", config).await;
    joined.expect("settings are right")
}

fn campaign(election: &EtcdElection) -> tokio::task::JoinHandle<(Leadership, Instant)> {
    let election = election.clone();
    tokio::spawn(async move {
        let leadership = election.campaign(b"next").await.expect("no final error");
        (leadership, Instant::now())
    })
}

together! {
    takeovers:
    a_successor_waits_half_a_second_after_the_delete_and_keeps_its_lease,
    a_lease_outlives_a_delay_that_is_longer,
    a_lease_revoked_in_the_delay_means_the_back_of_the_queue,
}

async fn a_successor_waits_half_a_second_after_the_delete_and_keeps_its_lease() {
    let etcd = Etcd::start().await;
    let election = delayed(&etcd, 2, DELAY).await;
    let old = lead(&election, b"old").await;
    let next = campaign(&election);
    queued(&election, 2).await;
    let place = election.candidates().await.unwrap()[1].token;

    let mut client = etcd.client().await;
    let deleted_at = Instant::now();
    client
        .delete(election.leader_key(&old), None)
        .await
        .unwrap();
    let (leadership, won_at) = soon(next).await.unwrap();
    let waited = won_at - deleted_at;
    println!("won {waited:?} after the delete");
    assert!(waited >= DELAY, "won {waited:?} after the delete");
    assert_eq!(leadership.token(), place, "the place that it waited with");
    assert!(leadership.is_valid());
}

/// The delay is longer than the lease: it lives because it is renewed meanwhile.
async fn a_lease_outlives_a_delay_that_is_longer() {
    let etcd = Etcd::start().await;
    let delay = Duration::from_secs(3);
    let election = delayed(&etcd, 2, delay).await;
    let old = lead(&election, b"old").await;
    let next = campaign(&election);
    queued(&election, 2).await;
    let mut client = etcd.client().await;
    let resigned_at = Instant::now();
    old.resign().await;
    let (mut looks, mut seen) = (0, None);
    while !next.is_finished() {
        let leases = client.leases().await.unwrap();
        let [lease] = leases.leases() else {
            panic!("one lease was expected: {leases:?}");
        };
        let lives = client.lease_time_to_live(lease.id(), None).await.unwrap();
        assert!(lives.ttl() >= 0, "the lease ran out in the delay");
        assert_eq!(*seen.get_or_insert(lease.id()), lease.id());
        looks += 1;
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    let (leadership, won_at) = soon(next).await.unwrap();
    assert!(won_at - resigned_at >= delay);
    assert!(looks > 1 && leadership.is_valid());
}

async fn a_lease_revoked_in_the_delay_means_the_back_of_the_queue() {
    let etcd = Etcd::start().await;
    let delay = Duration::from_secs(2);
    let election = delayed(&etcd, 5, delay).await;
    let old = lead(&election, b"old").await;
    let revoked = campaign(&election);
    queued(&election, 2).await;
    let behind = campaign(&election);
    queued(&election, 3).await;
    let before = election.candidates().await.unwrap();
    old.resign().await;
    queued(&election, 2).await;

    // It is the first, in its delay.
    let mut client = etcd.client().await;
    let all = client
        .get("e/", Some(etcd_client::GetOptions::new().with_prefix()))
        .await
        .unwrap();
    let mut keys = all.kvs().iter();
    let first = keys.find(|kv| kv.create_revision() as u64 == before[1].token);
    assert!(!revoked.is_finished());
    let revoked_at = Instant::now();
    client.lease_revoke(first.unwrap().lease()).await.unwrap();
    queued(&election, 2).await;
    let after = election.candidates().await.unwrap();
    assert_eq!(after[0].token, before[2].token);
    assert!(after[1].token > before[2].token, "it joined again");

    let (leads, won_at) = soon(behind).await.unwrap();
    assert_eq!(leads.token(), after[0].token);
    assert!(won_at - revoked_at >= delay);
    assert!(!revoked.is_finished(), "a phantom win");
    leads.resign().await;
    let (last, _) = soon(revoked).await.unwrap();
    assert_eq!(last.token(), after[1].token);
}
