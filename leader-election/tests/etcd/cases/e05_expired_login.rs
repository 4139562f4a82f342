//! E05: the login expires while a standby waits.

use std::time::Duration;

use leader_election::{Election, ErrorKind, Leadership, Resigned, etcd::EtcdElection};
use tokio::time::{Instant, sleep};

use super::passed;
use crate::{
    config,
    faults::renewed,
    lead,
    proxy::{Proxy, Way},
    queued,
    server::Etcd,
    soak, soon,
    together::together,
    users::{AUTHENTICATE, RIGHT, as_root, set_password, user, with_signed_tokens, with_users},
};

const TTL: u64 = 3;

async fn join(endpoint: String, password: &str) -> Result<EtcdElection, leader_election::Error> {
    EtcdElection::connect_with([endpoint], "e", config(TTL), user("candidate", password)).await
}

fn wait(election: &EtcdElection) -> tokio::task::JoinHandle<Leadership> {
    crate::campaign(election, b"s")
}

together! {
    logins_expire:
    a_standby_logs_in_anew_and_leads_in_time,
    a_leader_outlives_a_change_of_the_users,
    a_watch_that_is_refused_for_its_login_is_opened_again,
    a_leader_outlives_the_end_of_its_logins,
    a_wrong_password_is_told_once_and_never_tried_in_a_loop,
}

async fn a_standby_logs_in_anew_and_leads_in_time() {
    // Shorter than the lease: a login counts from its last use, and each wait uses it.
    let (token_ttl, idle) = if soak() { ("2", 15) } else { ("1", 4) };
    let etcd = with_users(token_ttl).await;
    let proxy = Proxy::start(etcd.port()).await;
    let leads = join(proxy.endpoint(), RIGHT).await.unwrap();
    let leader = lead(&leads, b"l").await;
    let standby = join(etcd.endpoint(), RIGHT).await.unwrap();
    let waits = wait(&standby);
    queued(&standby, 2).await;
    sleep(Duration::from_secs(idle)).await;
    assert!(leader.is_valid(), "its own logins are renewed, too");

    proxy.set(Way::Swallow);
    let killed = Instant::now();
    let next = soon(waits).await.unwrap();
    assert!(killed.elapsed() < Duration::from_secs(TTL + 2));
    assert!(next.token() > leader.token());
    assert_eq!(next.resign().await, Resigned::Released);
    // How many calls etcd has refused for their login.
    let refused = etcd
        .metric(&["grpc_server_handled_total", "Unauthenticated"])
        .await;
    passed("E05", refused);
}

/// Tokens that are signed carry the revision of the users, and are too old after any
/// change of them.
async fn a_leader_outlives_a_change_of_the_users() {
    let (etcd, _dir) = with_signed_tokens().await;
    outlives("E05-changed-users", &etcd, || {
        as_root(&etcd, "user add other:other")
    })
    .await;
}

/// A watch that comes with such a token is refused in other words.
async fn a_watch_that_is_refused_for_its_login_is_opened_again() {
    let (etcd, _dir) = with_signed_tokens().await;
    let proxy = Proxy::start(etcd.port()).await;
    let election = join(etcd.endpoint(), RIGHT).await.unwrap();
    let leader = lead(&election, b"l").await;
    let standby = join(proxy.endpoint(), RIGHT).await.unwrap();
    proxy.hold_up_at(&election.leader_key(&leader));
    let waits = wait(&standby);
    let held = async {
        while proxy.triggered() == 0 {
            sleep(Duration::from_millis(5)).await;
        }
    };
    soon(held).await;
    as_root(&etcd, "user add other:other");
    proxy.set_up(Way::Pass);
    sleep(Duration::from_secs(1)).await;
    assert!(!waits.is_finished(), "it waits on");
    leader.resign().await;
    assert!(soon(waits).await.unwrap().token() > leader.token());
    passed("E05-refused-watch", proxy.triggered());
}

/// Another password, or the same again, ends all tokens of a user.
async fn a_leader_outlives_the_end_of_its_logins() {
    let etcd = with_users("300").await;
    outlives("E05-ended-logins", &etcd, || {
        set_password(&etcd, "candidate", RIGHT)
    })
    .await;
}

async fn outlives(case: &str, etcd: &Etcd, change: impl FnOnce()) {
    let election = join(etcd.endpoint(), RIGHT).await.unwrap();
    let leader = lead(&election, b"l").await;
    let waits = wait(&election);
    queued(&election, 2).await;
    let logins = ["grpc_server_started_total", AUTHENTICATE];
    let before = etcd.metric(&logins).await;
    change();
    for _ in 0..2 {
        renewed(&leader, TTL).await;
    }
    assert!(!waits.is_finished());
    assert_eq!(leader.resign().await, Resigned::Released);
    assert!(soon(waits).await.unwrap().token() > leader.token());
    // One login is etcdctl's.
    passed(case, etcd.metric(&logins).await - before - 1);
}

async fn a_wrong_password_is_told_once_and_never_tried_in_a_loop() {
    let etcd = with_users("300").await;
    let logins = ["grpc_server_handled_total", AUTHENTICATE, "InvalidArgument"];
    let error = soon(Box::pin(join(etcd.endpoint(), "wrong"))).await;
    let error = error.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Denied);
    assert!(error.to_string().contains("password"), "{error}");
    assert_eq!(etcd.metric(&logins).await, 1);

    // Where etcd cannot be reached at first, the campaign tells it.
    let proxy = Proxy::start(etcd.port()).await;
    proxy.cut(true);
    let election = join(proxy.endpoint(), "wrong").await.unwrap();
    proxy.cut(false);
    let error = soon(election.campaign(b"a")).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Denied);
    // The clean-up of what the join may have left asks once, too.
    sleep(Duration::from_secs(1)).await;
    let refused = etcd.metric(&logins).await;
    sleep(Duration::from_secs(1)).await;
    assert_eq!(etcd.metric(&logins).await, refused, "it goes on");
    assert!(refused <= 4, "{refused} logins");
    passed("E05-wrong-password", refused);
}
