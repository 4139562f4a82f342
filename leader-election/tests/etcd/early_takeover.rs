//! Hunts winners that lead after a takeover delay in which their place went.

use std::time::Duration;

use leader_election::etcd::EtcdElection;
use tokio::time::sleep;

use crate::{campaign, config, join, key_and_lease, lead, queued, server::Etcd, soon};

const DELAY: Duration = Duration::from_millis(500);

async fn waits(etcd: &Etcd) -> EtcdElection {
    let config = config(10).with_takeover_delay(DELAY);
    let election = EtcdElection::connect([etcd.endpoint()], "e", config).await;
    election.expect("settings are right")
}

/// The delay is over before the next renewal is due.
#[tokio::test(flavor = "multi_thread")]
async fn a_winner_that_is_revoked_in_its_delay_waits_its_turn_again() {
    let etcd = Etcd::start().await;
    let election = waits(&etcd).await;
    let first = lead(&join(&etcd, 10).await, b"a").await;
    let next = campaign(&election, b"b");
    queued(&election, 2).await;
    let token = election.candidates().await.unwrap()[1].token;
    let third = campaign(&join(&etcd, 10).await, b"c");
    queued(&election, 3).await;
    let (_, lease) = key_and_lease(&etcd, token).await;
    first.resign().await;
    // Well within the delay.
    sleep(DELAY / 5).await;
    assert!(!next.is_finished());
    let mut client = etcd.client().await;
    client.lease_revoke(lease).await.unwrap();
    let third = soon(third).await.unwrap();
    queued(&election, 2).await;
    assert!(!next.is_finished());
    third.resign().await;
    let next = soon(next).await.unwrap();
    assert!(next.token() > third.token() && third.token() > token);
}
