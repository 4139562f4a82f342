//! Names that the system's resolver does not know yet, or no longer knows as they were.

use std::net::TcpListener;
use std::path::{Path, PathBuf};
use std::process::Command as Process;
use std::time::Duration;

use bidi_session::PoolConfig;
use bidi_session::tonic::Acceptor;
use tonic::transport::Endpoint;

use crate::support::{
    Accepting, Host, LONG, Pool, after_failures, barrier, connector, echo, endpoint, next, pool,
};

/// Set in the process that has a hosts file of its own.
const HOSTS: &str = "BIDI_SESSION_TEST_HOSTS";

/// Runs the test of this name again in a mount namespace of its own, where this file
/// is the system's hosts file; `None` in the test that runs again.
fn with_own_hosts(name: &str) -> Option<PathBuf> {
    if let Some(hosts) = std::env::var_os(HOSTS) {
        return Some(hosts.into());
    }
    let unique = format!("bidi-session-{}-{}", std::process::id(), name.len());
    let hosts = std::env::temp_dir().join(unique);
    std::fs::write(&hosts, "127.0.0.1 localhost\n").unwrap();
    let script = format!("mount --bind \"${HOSTS}\" /etc/hosts && exec \"$@\"");
    let ended = Process::new("unshare")
        .args(["--mount", "sh", "-c", &script, "sh"])
        .arg(std::env::current_exe().unwrap())
        .args(["--exact", name, "--nocapture"])
        .env(HOSTS, &hosts)
        .output();
    std::fs::remove_file(&hosts).unwrap();
    let ended = ended.expect("unshare is missing: install the package util-linux");
    let text = |bytes| String::from_utf8_lossy(bytes).into_owned();
    let (out, err) = (text(&ended.stdout), text(&ended.stderr));
    let status = ended.status;
    assert!(
        status.success() && out.contains("1 passed"),
        "in a mount namespace of its own (needs root): {status}\n{out}{err}"
    );
    None
}

/// Writes the file in place: what is mounted is the file, not its name.
fn set(hosts: &Path, line: &str) {
    std::fs::write(hosts, format!("127.0.0.1 localhost\n{line}\n")).unwrap();
}

fn target(name: &str, port: u16) -> Endpoint {
    Endpoint::from_shared(format!("http://{name}:{port}")).unwrap()
}

#[tokio::test]
async fn a_name_that_appears_late_is_found_by_the_system_s_resolver() {
    let name = "unresolved_name::a_name_that_appears_late_is_found_by_the_system_s_resolver";
    let Some(hosts) = with_own_hosts(name) else {
        return;
    };
    let (late, live) = (Host::echo("w7", 1), Host::echo("w1", 1));
    let (pool, mut events) = pool(1);
    pool.insert("w1", endpoint(live.address));
    pool.ready(["w1"], LONG).await.unwrap();
    assert_eq!(next(&mut events).await, "w1 connected to 1");
    pool.insert("w7", target("worker-7.test", late.address.port()));
    // Until 4 attempts have asked in vain the other worker's rounds go on.
    for epoch in 1..=4 {
        let failed = next(&mut events).await;
        let why = "name look-up of worker-7.test failed";
        assert!(failed.contains(why), "{failed}");
        let round = pool.inject(epoch, ["w1"], |_| barrier(epoch)).unwrap();
        round.collect(Duration::from_secs(2)).await.unwrap();
    }
    set(&hosts, "127.0.0.1 worker-7.test");
    let step = pool.state("w7").unwrap().retry_in.unwrap_or_default();
    assert!(step <= Duration::from_millis(1600), "{step:?}");
    pool.ready(["w7"], step + Duration::from_secs(2))
        .await
        .unwrap();
    let connected = after_failures(&mut events, "w7 connected").await;
    assert_eq!(connected, "w7 connected to 1");
    assert!(events.try_recv().is_none());
}

#[tokio::test]
async fn a_name_that_moves_is_followed_by_the_system_s_resolver() {
    let name = "unresolved_name::a_name_that_moves_is_followed_by_the_system_s_resolver";
    let Some(hosts) = with_own_hosts(name) else {
        return;
    };
    let old = TcpListener::bind("127.0.0.2:0").unwrap();
    let port = old.local_addr().unwrap().port();
    let worker = |incarnation| Accepting::new(Acceptor::new("w1", incarnation, 0), echo);
    let old = Host::start_on(old, worker(1));
    set(&hosts, "127.0.0.2 worker-1.test");
    let config = PoolConfig::new(1).with_blocked_retry(Duration::from_millis(100));
    let (pool, mut events) = Pool::new(connector(), config);
    pool.insert("w1", target("worker-1.test", port));
    assert_eq!(next(&mut events).await, "w1 connected to 1");
    drop(old);
    let stranger = TcpListener::bind(("127.0.0.2", port)).unwrap();
    let acceptor = Acceptor::new("w9", 1, 0);
    let _stranger = Host::start_on(stranger, Accepting::new(acceptor, echo));
    let lost = next(&mut events).await;
    assert!(lost.starts_with("w1 lost: "), "{lost}");
    let refused = "w1 failed: another worker answers: w9";
    while next(&mut events).await != refused {}
    let moved = TcpListener::bind(("127.0.0.3", port)).unwrap();
    let _moved = Host::start_on(moved, worker(2));
    set(&hosts, "127.0.0.3 worker-1.test");
    let connected = after_failures(&mut events, "w1 connected").await;
    assert_eq!(connected, "w1 connected to 2");
}
