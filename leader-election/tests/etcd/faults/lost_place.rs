//! A candidate loses its place while it waits.

use leader_election::Loss;

use super::proven;
use crate::{campaign, join, lead, queued, server::Etcd, soon};

#[tokio::test(flavor = "multi_thread")]
async fn a_place_that_is_deleted_while_waiting_is_taken_again_at_the_back() {
    let etcd = Etcd::start().await;
    let delete = |key: &str, _: &str| vec!["del".to_owned(), key.to_owned()];
    let deleted = joins_again(&etcd, delete, "mvcc_delete_total").await;
    proven("waiting key deleted", deleted);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_lease_that_is_revoked_while_waiting_is_granted_again_at_the_back() {
    let etcd = Etcd::start().await;
    let revoke = |_: &str, lease: &str| {
        let words = ["lease", "revoke", lease];
        words.map(ToOwned::to_owned).to_vec()
    };
    let revoked = joins_again(&etcd, revoke, "etcd_debugging_lease_revoked_total").await;
    proven("waiting lease revoked", revoked);
}

/// Returns what etcd counts under this name just after the fault.
async fn joins_again(etcd: &Etcd, fault: impl Fn(&str, &str) -> Vec<String>, metric: &str) -> u64 {
    let election = join(etcd, 30).await;
    let leader = lead(&election, b"l").await;
    let first = campaign(&election, b"1");
    queued(&election, 2).await;
    let second = campaign(&election, b"2");
    queued(&election, 3).await;

    let before = election.candidates().await.expect("etcd serves");
    let (key, lease) = key_of(etcd, before[1].token).await;
    let words = fault(&key, &lease);
    etcd.ctl(&words.iter().map(String::as_str).collect::<Vec<_>>());
    let count = etcd.metric(&[metric]).await;
    let at_the_back = async {
        loop {
            let all = election.candidates().await.expect("etcd serves");
            if all.len() == 3 && all[2].value == b"1" {
                return all;
            }
        }
    };
    let all = soon(Box::pin(at_the_back)).await;
    assert!(all[2].token > before[2].token);
    assert!(leader.is_valid() && !first.is_finished());

    leader.resign().await;
    let second = soon(second).await.expect("wins");
    assert_eq!(second.token(), before[2].token);
    second.resign().await;
    assert_eq!(soon(first).await.expect("wins").token(), all[2].token);
    count
}

/// Returns the key with this token, and its lease in hex.
async fn key_of(etcd: &Etcd, token: u64) -> (String, String) {
    let options = etcd_client::GetOptions::new().with_prefix();
    let all = etcd.client().await.get("e/", Some(options)).await;
    let all = all.expect("etcd serves");
    let found = all
        .kvs()
        .iter()
        .find(|kv| kv.create_revision() as u64 == token);
    let found = found.expect("it waits");
    let key = found.key_str().expect("text").to_owned();
    (key, format!("{:x}", found.lease()))
}

/// A key without a lease would block the others for ever.
#[tokio::test(flavor = "multi_thread")]
async fn a_leader_whose_key_is_overwritten_by_hand_makes_room() {
    let etcd = Etcd::start().await;
    let election = join(&etcd, 5).await;
    let leader = lead(&election, b"l").await;
    let standby = campaign(&election, b"s");
    queued(&election, 2).await;
    let key = String::from_utf8(election.leader_key(&leader)).expect("text");
    etcd.ctl(&["put", &key, "by hand"]);
    assert_eq!(soon(leader.lost()).await, Loss::Removed);
    let next = soon(standby).await.expect("wins");
    assert!(next.token() > leader.token());
    assert_eq!(election.candidates().await.expect("etcd serves").len(), 1);
    proven(
        "leader's key overwritten",
        etcd.metric(&["mvcc_put_total"]).await,
    );
}
