//! A user loses its password, its rights or itself under clients that live.

use std::time::Duration;

use leader_election::{
    Election, ElectionConfig, Error, ErrorKind, Leadership, Loss, Resigned,
    etcd::{EtcdElection, EtcdOptions},
};
use tokio::{task::JoinHandle, time::Instant};

use super::{proven, renewed};
use crate::{
    boot_time, config, lead, queued,
    server::Etcd,
    soon,
    together::together,
    users::{AUTHENTICATE, RIGHT, add_user, as_root, refused, set_password, user, with_users},
};

async fn join_as(etcd: &Etcd, ttl: u64, name: &str, options: EtcdOptions) -> EtcdElection {
    join_with(etcd, config(ttl), name, options).await
}

async fn join_with(
    etcd: &Etcd,
    config: ElectionConfig,
    name: &str,
    options: EtcdOptions,
) -> EtcdElection {
    let joined = EtcdElection::connect_with([etcd.endpoint()], name, config, options).await;
    joined.expect("settings and credentials are right")
}

fn wait(election: &EtcdElection) -> JoinHandle<Result<Leadership, Error>> {
    let election = election.clone();
    tokio::spawn(async move { election.campaign(b"b").await })
}

/// Calls of any kind that etcd has refused for who sent them.
async fn all_refused(etcd: &Etcd) -> u64 {
    refused(etcd, AUTHENTICATE, "InvalidArgument").await
        + refused(etcd, "etcdserverpb", "PermissionDenied").await
}

/// A leader goes on until its deadline, and no longer; a candidate that waits is told at
/// once, and what to do; the next one need not wait for more than the lease.
async fn ends(etcd: &Etcd, name: &str, refuse: impl FnOnce(), advice: &str) {
    add_user(etcd, name, name);
    let join = || join_as(etcd, 3, name, user(name, RIGHT));
    let (first, second) = (join().await, join().await);
    let root = join_as(etcd, 3, name, user("root", "root")).await;
    let leader = lead(&first, b"a").await;
    let waits = wait(&second);
    queued(&root, 2).await;
    let before = all_refused(etcd).await;
    refuse();
    let error = soon(waits).await.unwrap().unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Denied, "{name}");
    assert!(error.to_string().contains(advice), "{name}: {error}");
    let (next, refused_at) = (wait(&root), Instant::now());
    assert_eq!(soon(leader.lost()).await, Loss::Expired, "{name}");
    assert!(boot_time() >= leader.deadline(), "{name}");
    assert_eq!(leader.resign().await, Resigned::AlreadyOver, "{name}");
    assert!(soon(next).await.unwrap().unwrap().token() > leader.token());
    // The lease is not kept alive by who cannot lead with it.
    let bound = config(3).ttl + config(3).renew_every + Duration::from_secs(1);
    let took = refused_at.elapsed();
    assert!(took < bound, "{name}: {took:?}");
    proven(name, all_refused(etcd).await - before);
}

together! {
    users_are_refused:
    a_leader_whose_user_is_refused_leads_until_its_deadline,
    a_leader_whose_password_is_refused_logs_in_no_more_than_now_and_then,
    a_leader_that_is_told_of_another_password_in_time_keeps_its_lease,
}

async fn a_leader_whose_user_is_refused_leads_until_its_deadline() {
    let etcd = with_users("300").await;
    let (password, rights) = ("correct them", "the role needs to read and write");
    let change = || set_password(&etcd, "changed-password", "new");
    let delete = || as_root(&etcd, "user delete deleted-user");
    let revoke = || as_root(&etcd, "user revoke-role revoked-rights revoked-rights");
    tokio::join!(
        ends(&etcd, "changed-password", change, password),
        ends(&etcd, "deleted-user", delete, password),
        ends(&etcd, "revoked-rights", revoke, rights),
    );
}

/// Each login costs etcd the check of a password.
async fn a_leader_whose_password_is_refused_logs_in_no_more_than_now_and_then() {
    let etcd = with_users("300").await;
    let election = join_as(&etcd, 3, "e", user("candidate", RIGHT)).await;
    let leader = lead(&election, b"a").await;
    let seen = election.observe();
    set_password(&etcd, "candidate", "new");
    let before = refused(&etcd, AUTHENTICATE, "InvalidArgument").await;
    assert_eq!(soon(leader.lost()).await, Loss::Expired);
    let logins = refused(&etcd, AUTHENTICATE, "InvalidArgument").await - before;
    // Four renewals are left of a lease, and none is hurried.
    assert!(logins <= 8, "{logins} logins within a lease");
    drop(seen);
    proven("changed password", logins);
}

async fn a_leader_that_is_told_of_another_password_in_time_keeps_its_lease() {
    let etcd = with_users("300").await;
    add_user(&etcd, "second", "e");
    // Renewed often, within a lease that does not end in this test.
    let config = config(20).with_renew_every(Duration::from_millis(250));
    let join = || join_with(&etcd, config.clone(), "e", user("candidate", RIGHT));
    let (first, second) = (join().await, join().await);
    let leader = lead(&first, b"a").await;
    let waits = wait(&second);
    queued(&first, 2).await;
    // Who has another user before its own is refused, is never refused.
    second.set_user("second", RIGHT);

    let before = refused(&etcd, AUTHENTICATE, "InvalidArgument").await;
    set_password(&etcd, "candidate", "new");
    let told = async {
        while refused(&etcd, AUTHENTICATE, "InvalidArgument").await == before {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    };
    soon(told).await;
    first.set_user("candidate", "new");
    renewed(&leader, 20).await;
    let faults = refused(&etcd, AUTHENTICATE, "InvalidArgument").await - before;

    first.set_user("second", RIGHT);
    as_root(&etcd, "user delete candidate");
    renewed(&leader, 20).await;
    assert!(!waits.is_finished(), "it waits on");
    let all = refused(&etcd, AUTHENTICATE, "InvalidArgument").await - before;
    assert_eq!(all, faults, "nobody is refused");
    leader.resign().await;
    assert!(soon(waits).await.unwrap().unwrap().token() > leader.token());
    proven("password that was set anew", faults);
}
