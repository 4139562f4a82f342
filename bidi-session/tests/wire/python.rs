//! Workers in another language, written from the handshake's page alone.

use std::io::{BufRead, BufReader};
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::{Child, Command as Program, Stdio};
use std::sync::OnceLock;
use std::sync::mpsc::{Receiver, channel};
use std::time::Duration;

use bidi_session::EventKind;
use tokio::time::{Instant, timeout_at};

use super::real::{
    LONG, barrier, connected, disconnected, endpoint, failed_attempt, next, pool, soon, within,
};
use super::strange_handshake::refuses_by_the_page;
use super::tap::{Side, Tap};

const HOW_TO_INSTALL: &str = "the tests of other languages need python3 with venv (Debian: python3 and python3-venv), \
     and access to a Python package index for grpcio";

/// A worker process; killed on drop.
struct Worker {
    child: Child,
    address: SocketAddr,
    lines: Receiver<String>,
}

// ===== impl Worker =====

impl Worker {
    fn start(arguments: &[&str]) -> Self {
        let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/python/worker.py");
        let mut child = Program::new(python())
            .arg(script)
            .args(arguments)
            .stdout(Stdio::piped())
            .spawn()
            .expect("the virtual environment has a python");
        let stdout = BufReader::new(child.stdout.take().expect("a pipe"));
        let (told, lines) = channel();
        // Ends with the child's output.
        std::thread::spawn(move || {
            for line in stdout.lines().map_while(Result::ok) {
                let _ = told.send(line);
            }
        });
        let port = lines
            .recv_timeout(LONG)
            .expect("the worker prints its port");
        let port: u16 = port.parse().expect("a port");
        Self {
            child,
            address: SocketAddr::from(([127, 0, 0, 1], port)),
            lines,
        }
    }

    fn told(&self) -> Vec<String> {
        self.lines.try_iter().collect()
    }
}

impl Drop for Worker {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Returns a Python that has grpcio, in a virtual environment beside the build.
fn python() -> &'static Path {
    static PYTHON: OnceLock<PathBuf> = OnceLock::new();
    PYTHON.get_or_init(|| {
        let place = Path::new(env!("CARGO_TARGET_TMPDIR")).join("grpcio");
        let python = place.join("bin/python");
        let mark = place.join("complete");
        if mark.exists() {
            return python;
        }
        // What an interrupted installation has left is no environment.
        let _ = std::fs::remove_dir_all(&place);
        run(Program::new("python3").args(["-m", "venv"]).arg(&place));
        let wanted = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/python/requirements.txt");
        let mut pip = Program::new(&python);
        pip.args([
            "-m",
            "pip",
            "install",
            "--quiet",
            "--disable-pip-version-check",
        ]);
        run(pip
            .args(["--only-binary", ":all:", "--requirement"])
            .arg(wanted));
        std::fs::write(&mark, "").expect("a mark in the environment");
        python
    })
}

fn run(program: &mut Program) {
    let output = program.output();
    let output = output.unwrap_or_else(|error| panic!("{program:?}: {error}; {HOW_TO_INSTALL}"));
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(
        output.status.success(),
        "{program:?}: {said}; {HOW_TO_INSTALL}"
    );
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_python_worker_written_from_the_page_serves_a_pool() {
    let worker = Worker::start(&["w1", "40", "4"]);
    let (leader, mut events) = pool(5);
    leader.insert_incarnation("w1", endpoint(worker.address), 40);
    assert_eq!(connected(&mut events).await.1, Some(40));
    for epoch in 1..=10 {
        let round = leader
            .inject(epoch, ["w1"], |_| barrier(epoch))
            .expect("it is up");
        let replies = soon(round.collect(LONG)).await.expect("it answers");
        assert_eq!(replies.len(), 1);
        assert_eq!(replies[0].1.epoch, Some(epoch));
    }
    // Another id at this address is refused, a deposed leader is told the higher term.
    leader.insert("other", endpoint(worker.address));
    let text = failed_attempt(&mut events).await;
    assert!(text.contains("another worker answers: w1"), "{text}");
    leader.remove("other");
    let (deposed, mut deposed_events) = pool(4);
    deposed.insert("w1", endpoint(worker.address));
    let told = next(&mut deposed_events).await.kind;
    assert!(
        matches!(told, EventKind::HigherTerm { term: 5, .. }),
        "{told:?}"
    );
    // A higher term takes over, and then the former leader is the deposed one.
    let (newer, mut newer_events) = pool(6);
    newer.insert("w1", endpoint(worker.address));
    connected(&mut newer_events).await;
    assert_eq!(next(&mut events).await.kind, EventKind::Removed);
    disconnected(&mut events).await;
    let told = next(&mut events).await.kind;
    assert!(
        matches!(told, EventKind::HigherTerm { term: 6, .. }),
        "{told:?}"
    );
    let round = newer.inject(1, ["w1"], |_| barrier(1)).expect("it is up");
    soon(round.collect(LONG)).await.expect("it answers");
    println!("CASE python-worker fault={}", worker.told().len());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_python_worker_refuses_as_the_page_says() {
    let worker = Worker::start(&["w1", "40", "4"]);
    refuses_by_the_page(worker.address).await;
    // Every session had ended before the next began.
    let mut is_held = false;
    for line in worker.told() {
        assert_ne!(line.starts_with("began"), is_held, "{line}");
        is_held = !is_held;
    }
}

/// gRPC's own servers end a stream that is pinged every 5 s after some 25 s.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_idle_session_with_a_default_grpcio_server_is_lost_at_most_once() {
    let worker = Worker::start(&["w1", "40", "0", "default-options"]);
    let tap = Tap::start(worker.address).await;
    let (pool, mut events) = pool(1);
    let start = Instant::now();
    pool.insert("w1", endpoint(tap.address));
    connected(&mut events).await;
    let (_, reason) = within(2 * LONG, disconnected(&mut events)).await;
    let first = start.elapsed();
    assert!(reason.to_lowercase().contains("too many pings"), "{reason}");
    connected(&mut events).await;
    // Past the exchange at the start; a ping after 5 s would fall into the rest.
    let is_soak = std::env::var_os("SOAK").is_some();
    let rest = Duration::from_secs(if is_soak { 60 } else { 7 });
    tokio::time::sleep(Duration::from_secs(1)).await;
    tap.take();
    let told = timeout_at(Instant::now() + rest, events.recv()).await;
    assert!(told.is_err(), "{told:?}");
    assert_eq!(tap.passed(Side::Controller), 0, "it is still pinged");
    assert_eq!(tap.connections(), 2);
    println!("CASE default-grpcio fault={}", tap.connections() - 1);
    println!(
        "lost after {first:?}, then quiet for {:?}",
        start.elapsed() - first
    );
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_idle_session_with_a_grpcio_server_set_as_the_page_says_lasts() {
    let worker = Worker::start(&["w1", "40", "0"]);
    let tap = Tap::start(worker.address).await;
    let (pool, mut events) = pool(1);
    pool.insert("w1", endpoint(tap.address));
    let (generation, _) = connected(&mut events).await;
    tap.take();
    // Longer than a server bears that was left as it is.
    let told = timeout_at(Instant::now() + Duration::from_secs(32), events.recv()).await;
    assert!(told.is_err(), "{told:?}");
    assert!(tap.passed(Side::Controller) > 0, "nothing was pinged");
    let state = pool.state("w1").expect("in the pool");
    assert_eq!(state.session(), Some(generation));
}
