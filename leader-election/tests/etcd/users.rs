//! An etcd with users: `root`, and `candidate`, which may do no more than the election `e`
//! needs.

use std::{io::Write, process::Stdio};

use leader_election::etcd::EtcdOptions;
use tempfile::TempDir;

use crate::server::Etcd;

pub(crate) const AUTHENTICATE: &str = "grpc_method=\"Authenticate\"";

/// The password of `candidate`.
pub(crate) const RIGHT: &str = "right";

/// Starts an etcd whose tokens are forgotten so many seconds after their last use.
pub(crate) async fn with_users(token_ttl: &str) -> Etcd {
    start(&["--auth-token", "simple", "--auth-token-ttl", token_ttl]).await
}

/// Starts an etcd whose tokens are signed, and are too old after any change of the users.
pub(crate) async fn with_signed_tokens() -> (Etcd, TempDir) {
    let dir = TempDir::new().expect("a temporary folder");
    let key = dir.path().join("key");
    std::fs::write(&key, "a key of thirty-two bytes or more").expect("a new file");
    let token = format!("jwt,priv-key={},sign-method=HS256,ttl=5m", key.display());
    (start(&["--auth-token", &token]).await, dir)
}

async fn start(tokens: &[&str]) -> Etcd {
    // The cheapest check of a password: a test is no place to wait for one.
    let etcd = Etcd::start_with(&[tokens, &["--bcrypt-cost", "4"]].concat()).await;
    etcd.ctl(&["user", "add", "root:root"]);
    etcd.ctl(&["user", "grant-role", "root", "root"]);
    etcd.ctl(&["auth", "enable"]);
    add_user(&etcd, "candidate", "e");
    etcd
}

/// Adds a user of one election, with the right password.
pub(crate) fn add_user(etcd: &Etcd, name: &str, election: &str) {
    let life = format!("leader-election/life/{election}");
    for command in [
        format!("role add {name}"),
        format!("role grant-permission {name} readwrite {election}/ {election}0"),
        format!("role grant-permission {name} readwrite {life}"),
        format!("user add {name}:{RIGHT}"),
        format!("user grant-role {name} {name}"),
    ] {
        as_root(etcd, &command);
    }
}

pub(crate) fn set_password(etcd: &Etcd, name: &str, password: &str) {
    let set = ["user", "passwd", name, "--interactive=false"];
    let mut command = etcd.ctl_command(&["--user", "root:root"]);
    command
        .args(set)
        .stdin(Stdio::piped())
        .stdout(Stdio::null());
    let mut child = command.spawn().expect("etcdctl runs");
    let mut stdin = child.stdin.take().expect("piped");
    let line = format!("{password}\n");
    stdin.write_all(line.as_bytes()).expect("it is read");
    assert!(child.wait().expect("own child").success());
}

/// Runs an administrator's command, the words of which are parted by spaces.
pub(crate) fn as_root(etcd: &Etcd, command: &str) {
    let words: Vec<_> = command.split(' ').collect();
    etcd.ctl(&[&["--user", "root:root"], &words[..]].concat());
}

pub(crate) fn turn_off(etcd: &Etcd) {
    as_root(etcd, "auth disable");
}

pub(crate) fn turn_on(etcd: &Etcd) {
    etcd.ctl(&["auth", "enable"]);
}

/// Counts the calls that etcd has refused in one way, of the method that is meant by `part`.
pub(crate) async fn refused(etcd: &Etcd, part: &str, code: &str) -> u64 {
    etcd.metric(&["grpc_server_handled_total", part, code])
        .await
}

pub(crate) fn user(name: &str, password: &str) -> EtcdOptions {
    EtcdOptions::default().with_user(name, password)
}
