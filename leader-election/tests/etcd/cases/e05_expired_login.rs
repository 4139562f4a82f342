//! E05: the login expires while a standby waits.

use std::{io::Write, process::Stdio, time::Duration};

use leader_election::{
    Election, ErrorKind, Leadership, Resigned,
    etcd::{EtcdElection, EtcdOptions},
};
use tempfile::TempDir;
use tokio::time::{Instant, sleep};

use super::passed;
use crate::{
    config, lead,
    proxy::{Proxy, Way},
    queued,
    server::Etcd,
    soak, soon,
};

const TTL: u64 = 3;
const AUTHENTICATE: &str = "grpc_method=\"Authenticate\"";

/// An etcd with users: `root`, and `candidate` with no more than it needs.
async fn start(token_ttl: &str) -> Etcd {
    let tokens = ["--auth-token", "simple", "--auth-token-ttl", token_ttl];
    with_users(Etcd::start_with(&tokens).await)
}

fn with_users(etcd: Etcd) -> Etcd {
    let life = "leader-election/life/e";
    for command in [
        "user add root:root",
        "user grant-role root root",
        "role add candidates",
        "role grant-permission candidates readwrite e/ e0",
        &format!("role grant-permission candidates readwrite {life}"),
        "user add candidate:right",
        "user grant-role candidate candidates",
        "auth enable",
    ] {
        etcd.ctl(&command.split(' ').collect::<Vec<_>>());
    }
    etcd
}

async fn with_signed_tokens() -> (Etcd, TempDir) {
    let dir = TempDir::new().unwrap();
    let key = dir.path().join("key");
    std::fs::write(&key, "a key of thirty-two bytes or more").unwrap();
    let token = format!("jwt,priv-key={},sign-method=HS256,ttl=5m", key.display());
    let etcd = Etcd::start_with(&["--auth-token", &token]).await;
    (with_users(etcd), dir)
}

fn login(password: &str) -> EtcdOptions {
    EtcdOptions::default().with_user("candidate", password)
}

async fn join(endpoint: String, password: &str) -> Result<EtcdElection, leader_election::Error> {
    EtcdElection::connect_with([endpoint], "e", config(TTL), login(password)).await
}

fn wait(election: &EtcdElection) -> tokio::task::JoinHandle<Leadership> {
    crate::campaign(election, b"s")
}

#[tokio::test(flavor = "multi_thread")]
async fn a_standby_logs_in_anew_and_leads_in_time() {
    // Shorter than the lease: a login counts from its last use, and each wait uses it.
    let (token_ttl, idle) = if soak() { ("2", 15) } else { ("1", 4) };
    let etcd = start(token_ttl).await;
    let proxy = Proxy::start(etcd.port()).await;
    let leads = join(proxy.endpoint(), "right").await.unwrap();
    let leader = lead(&leads, b"l").await;
    let standby = join(etcd.endpoint(), "right").await.unwrap();
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
#[tokio::test(flavor = "multi_thread")]
async fn a_leader_outlives_a_change_of_the_users() {
    let (etcd, _dir) = with_signed_tokens().await;
    outlives("E05-changed-users", &etcd, &["user", "add", "other:other"]).await;
}

/// A watch that comes with such a token is refused in other words.
#[tokio::test(flavor = "multi_thread")]
async fn a_watch_that_is_refused_for_its_login_is_opened_again() {
    let (etcd, _dir) = with_signed_tokens().await;
    let proxy = Proxy::start(etcd.port()).await;
    let election = join(etcd.endpoint(), "right").await.unwrap();
    let leader = lead(&election, b"l").await;
    let standby = join(proxy.endpoint(), "right").await.unwrap();
    proxy.hold_up_at(&election.leader_key(&leader));
    let waits = wait(&standby);
    let held = async {
        while proxy.triggered() == 0 {
            sleep(Duration::from_millis(5)).await;
        }
    };
    soon(held).await;
    change_users(&etcd, &["user", "add", "other:other"]);
    proxy.set_up(Way::Pass);
    sleep(Duration::from_secs(1)).await;
    assert!(!waits.is_finished(), "it waits on");
    leader.resign().await;
    assert!(soon(waits).await.unwrap().token() > leader.token());
    passed("E05-refused-watch", proxy.triggered());
}

/// Another password, or the same again, ends all tokens of a user.
#[tokio::test(flavor = "multi_thread")]
async fn a_leader_outlives_the_end_of_its_logins() {
    let etcd = start("300").await;
    outlives("E05-ended-logins", &etcd, &["user", "passwd", "candidate"]).await;
}

async fn outlives(case: &str, etcd: &Etcd, change: &[&str]) {
    let election = join(etcd.endpoint(), "right").await.unwrap();
    let leader = lead(&election, b"l").await;
    let waits = wait(&election);
    queued(&election, 2).await;
    let logins = ["grpc_server_started_total", AUTHENTICATE];
    let before = etcd.metric(&logins).await;
    change_users(etcd, change);
    let changed = Instant::now();
    while changed.elapsed() < Duration::from_secs(TTL + 1) {
        assert!(leader.is_valid());
        assert!(!waits.is_finished());
        sleep(Duration::from_millis(50)).await;
    }
    assert_eq!(leader.resign().await, Resigned::Released);
    assert!(soon(waits).await.unwrap().token() > leader.token());
    // One login is etcdctl's.
    passed(case, etcd.metric(&logins).await - before - 1);
}

fn change_users(etcd: &Etcd, change: &[&str]) {
    let mut command = etcd.ctl_command(&["--user", "root:root"]);
    command
        .args(change)
        .stdin(Stdio::piped())
        .stdout(Stdio::null());
    if change[1] == "passwd" {
        command.arg("--interactive=false");
    }
    let mut child = command.spawn().unwrap();
    // Where a password is asked for.
    child.stdin.take().unwrap().write_all(b"right\n").unwrap();
    assert!(child.wait().unwrap().success());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_wrong_password_is_told_once_and_never_tried_in_a_loop() {
    let etcd = start("300").await;
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
