//! Hunts the gaps of etcd's Go recipe that are neither phantom wins nor leaks: the table
//! in `docs/wire.md` names a test for each.

use std::time::Duration;

use leader_election::{ErrorKind, Loss, Resigned, etcd::EtcdElection};
use tokio::time::sleep;

use crate::{
    campaign, config, join, join_at, key_and_lease, lead, proxy::Proxy, proxy::Way, queued,
    server::Etcd, soon,
};

#[tokio::test(flavor = "multi_thread")]
async fn a_restart_of_etcd_costs_a_waiting_candidate_nothing() {
    let mut etcd = Etcd::start().await;
    let election = join(&etcd, 10).await;
    let leadership = lead(&election, b"a").await;
    let standby = campaign(&election, b"b");
    queued(&election, 2).await;
    let token = election.candidates().await.unwrap()[1].token;
    etcd.restart().await;
    assert!(leadership.is_valid());
    assert_eq!(soon(leadership.resign()).await, Resigned::Released);
    assert_eq!(soon(standby).await.unwrap().token(), token);
}

/// Each candidate is held at another of its requests, so that one of them is about to
/// watch from a revision that is compacted then.
#[tokio::test(flavor = "multi_thread")]
async fn compaction_before_any_request_costs_a_candidate_nothing() {
    let etcd = Etcd::start().await;
    let mut waits = Vec::new();
    for n in 0..16 {
        let name = format!("e{n}");
        let at = async |endpoint| EtcdElection::connect([endpoint], &name, config(60)).await;
        let election = at(etcd.endpoint()).await.unwrap();
        let leadership = lead(&election, b"a").await;
        let proxy = Proxy::start(etcd.port()).await;
        let standby = at(proxy.endpoint()).await.unwrap();
        proxy.hold_up_after(n);
        let campaign = campaign(&standby, b"b");
        waits.push((leadership, proxy, standby, campaign));
    }
    // The last ones wait already and send nothing until they renew.
    let most_held = async {
        while waits
            .iter()
            .filter(|(_, proxy, ..)| proxy.held() > 0)
            .count()
            < 10
        {
            sleep(Duration::from_millis(10)).await;
        }
    };
    soon(most_held).await;
    let mut client = etcd.client().await;
    let mut revision = 0;
    for _ in 0..200 {
        let put = client.put("unrelated", "x", None).await.unwrap();
        revision = put.header().unwrap().revision();
    }
    client.compact(revision, None).await.unwrap();
    for (leadership, proxy, standby, campaign) in waits {
        proxy.set_up(Way::Pass);
        leadership.resign().await;
        let next = soon(campaign).await.unwrap();
        let key = client.get(standby.leader_key(&next), None).await.unwrap();
        assert_eq!(key.kvs()[0].create_revision() as u64, next.token());
    }
}

/// Whatever another client writes under the name counts, as it does for theirs.
#[tokio::test(flavor = "multi_thread")]
async fn a_key_of_an_unknown_client_is_a_candidate() {
    let etcd = Etcd::start().await;
    let election = join(&etcd, 10).await;
    let mut client = etcd.client().await;
    client
        .put("e/of another client", "theirs", None)
        .await
        .unwrap();
    let standby = campaign(&election, b"ours");
    queued(&election, 2).await;
    assert_eq!(election.candidates().await.unwrap()[0].value, b"theirs");
    assert!(!standby.is_finished());
    client.delete("e/of another client", None).await.unwrap();
    assert!(soon(standby).await.unwrap().is_valid());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_proclaim_that_finds_no_key_ends_the_leadership() {
    let etcd = Etcd::start().await;
    let proxy = Proxy::start(etcd.port()).await;
    let election = join_at(&[proxy.endpoint()], 30).await;
    let leadership = lead(&election, b"a").await;
    let mut client = etcd.client().await;
    // The notice of the watch, if it comes first, ends it for the same reason.
    client
        .delete(election.leader_key(&leadership), None)
        .await
        .unwrap();
    let error = leadership.proclaim(b"b").await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Lost);
    assert!(!leadership.is_valid());
    assert_eq!(soon(leadership.lost()).await, Loss::Removed);
    let found = client
        .get(election.leader_key(&leadership), None)
        .await
        .unwrap();
    assert_eq!(found.kvs().len(), 0, "nothing was written");
}

/// The value is written with the lease again: a put without it would leave a key that
/// outlives its leader.
#[tokio::test(flavor = "multi_thread")]
async fn a_new_value_keeps_key_token_and_lease() {
    let etcd = Etcd::start().await;
    let election = join(&etcd, 10).await;
    let leadership = lead(&election, b"a").await;
    let before = key_and_lease(&etcd, leadership.token()).await;
    leadership.proclaim(b"b").await.unwrap();
    assert_eq!(key_and_lease(&etcd, leadership.token()).await, before);
    assert_ne!(before.1, 0);
}
