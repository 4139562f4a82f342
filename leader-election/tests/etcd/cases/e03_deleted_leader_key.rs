//! E03: the leader's key is deleted by hand while its lease lives.

use std::time::Duration;

use leader_election::Loss;
use tokio::time::Instant;

use super::{Verifier, passed};
use crate::{campaign, join, lead, queued, server::Etcd, soon};

enum Means {
    DeletedKey,
    RevokedLease,
}

#[tokio::test(flavor = "multi_thread")]
async fn a_leader_whose_key_is_deleted_is_lost_at_once() {
    loses_at_once("E03", Means::DeletedKey).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_leader_whose_lease_is_revoked_is_lost_at_once() {
    loses_at_once("E03-revoked", Means::RevokedLease).await;
}

async fn loses_at_once(case: &str, means: Means) {
    let etcd = Etcd::start().await;
    let election = join(&etcd, 30).await;
    let leader = lead(&election, b"l").await;
    let standby = campaign(&election, b"s");
    queued(&election, 2).await;
    let mut resource = Verifier::default();
    assert!(resource.admits(leader.token()));

    let began = Instant::now();
    let key = String::from_utf8(election.leader_key(&leader)).unwrap();
    let lease = key.rsplit('/').next().unwrap();
    let said = match means {
        Means::DeletedKey => etcd.ctl(&["del", &key]),
        Means::RevokedLease => etcd.ctl(&["lease", "revoke", lease]),
    };
    assert_eq!(soon(leader.lost()).await, Loss::Removed);
    assert!(!leader.is_valid());
    assert!(began.elapsed() < Duration::from_secs(1));

    let again = campaign(&election, b"l");
    let next = soon(standby).await.unwrap();
    assert!(next.token() > leader.token());
    queued(&election, 2).await;
    let all = election.candidates().await.unwrap();
    assert_eq!(all[0].token, next.token());
    assert_eq!(all[1].value, b"l");
    assert!(all[1].token > next.token(), "behind the new leader");
    assert!(!again.is_finished());

    assert!(resource.admits(next.token()));
    assert!(!resource.admits(leader.token()), "a late write is refused");
    next.resign().await;
    assert_eq!(soon(again).await.unwrap().token(), all[1].token);
    // What etcdctl says: the number of keys that it deleted, or the lease it revoked.
    let said = String::from_utf8_lossy(&said.stdout).into_owned();
    let fault = match means {
        Means::DeletedKey => said.trim().parse().unwrap(),
        Means::RevokedLease => u64::from(said.contains("revoked")),
    };
    assert_eq!(resource.refused, 1);
    passed(case, fault);
}
