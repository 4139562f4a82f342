//! Names whose look-up hangs, and the look-up of the system.
#![cfg(feature = "tonic")]
#![expect(clippy::unwrap_used, reason = "a failure is the test's")]

mod real;

use std::process::Command as Process;
use std::sync::{Mutex, mpsc};
use std::time::Duration;

use bidi_session::{EventKind, Phase, Pool, PoolConfig};
use tonic::transport::Endpoint;

use real::{AT_ONCE, Host, Node, command, connect, failed_attempt, next, note, soon, within};

/// Set in the child process that has a mount namespace of its own.
const INSIDE: &str = "BIDI_SESSION_TEST_HOSTS";

fn named(port: u16) -> Endpoint {
    Endpoint::from_shared(format!("http://worker-1.test:{port}")).unwrap()
}

fn quick() -> PoolConfig {
    PoolConfig::new(1)
        .with_backoff(Duration::from_millis(10), Duration::from_millis(200))
        .with_blocked_retry(Duration::from_millis(50))
}

#[test]
fn a_look_up_that_hangs_holds_neither_the_pool_s_end_nor_the_runtime_s() {
    let (release, held) = mpsc::channel::<()>();
    let held = Mutex::new(held);
    let (asked, was_asked) = mpsc::channel();
    let connect = connect().with_resolver(move |_, _| {
        asked.send(()).unwrap();
        let _ = held.lock().unwrap().recv();
        Ok(Vec::new())
    });
    let runtime = tokio::runtime::Runtime::new().unwrap();
    runtime.block_on(async {
        let (pool, _events) = Pool::new(connect, quick());
        pool.insert("w1", named(1));
        was_asked.recv_timeout(real::LONG).unwrap();
        assert_eq!(pool.state("w1").unwrap().phase, Phase::Connecting);
        within(AT_ONCE, pool.close()).await;
    });
    let (ended, end) = mpsc::channel();
    std::thread::spawn(move || {
        drop(runtime);
        ended.send(()).unwrap();
    });
    end.recv_timeout(real::LONG)
        .expect("the look-up holds the runtime");
    drop(release);
}

/// The real look-up, in a mount namespace with a file of names of its own.
#[test]
fn the_system_s_look_up_is_asked_anew_at_each_attempt() {
    if let Some(hosts) = std::env::var_os(INSIDE) {
        let runtime = tokio::runtime::Runtime::new().unwrap();
        runtime.block_on(names_of_the_system(hosts.as_ref()));
        return;
    }
    let folder = std::env::temp_dir().join(format!("bidi-session-{}", std::process::id()));
    std::fs::create_dir_all(&folder).unwrap();
    let hosts = folder.join("hosts");
    let services = folder.join("nsswitch");
    std::fs::write(&hosts, "127.0.0.1 localhost\n").unwrap();
    std::fs::write(&services, "hosts: files\n").unwrap();
    let script = r#"
        mount --bind "$1" /etc/hosts || exit 97
        if [ -e /etc/nsswitch.conf ]; then mount --bind "$2" /etc/nsswitch.conf || exit 97; fi
        exec "$3" --exact the_system_s_look_up_is_asked_anew_at_each_attempt --nocapture
    "#;
    let child = Process::new("unshare")
        .args(["-m", "sh", "-c", script, "sh"])
        .args([&hosts, &services, &std::env::current_exe().unwrap()])
        .env(INSIDE, &hosts)
        .output()
        .expect("this test needs `unshare` (package util-linux) and the right to use it");
    std::fs::remove_dir_all(&folder).unwrap();
    let (out, err) = (
        String::from_utf8_lossy(&child.stdout),
        String::from_utf8_lossy(&child.stderr),
    );
    assert_ne!(
        child.status.code(),
        Some(97),
        "no right to mount in a namespace: {err}"
    );
    assert!(child.status.success(), "{out}\n{err}");
    println!(
        "{}",
        out.lines().find(|line| line.contains("CASE")).unwrap()
    );
}

async fn names_of_the_system(hosts: &std::path::Path) {
    let host = Host::start(Node::echo("w7", 1));
    let port = host.address.port();
    let (pool, mut events) = Pool::new(connect(), quick());
    let target = Endpoint::from_shared(format!("http://worker-7.test:{port}")).unwrap();
    pool.insert("w7", target);
    let mut failures = 0;
    for _ in 0..3 {
        let text = failed_attempt(&mut events).await;
        assert!(
            text.contains("name look-up of worker-7.test failed"),
            "{text}"
        );
        failures += 1;
    }
    // Written in place: a renamed file would not be the one that is mounted.
    std::fs::write(hosts, "127.0.0.1 localhost\n127.0.0.1 worker-7.test\n").unwrap();
    let event = within(AT_ONCE, next(&mut events)).await;
    assert!(
        matches!(event.kind, EventKind::Connected { .. }),
        "{event:?}"
    );
    pool.send("w7", command("hello")).await.unwrap();
    assert_eq!(
        soon(next(&mut events)).await.kind,
        EventKind::Message(note("hello"))
    );
    println!("CASE S03-names fault={failures}");
}
