//! Rounds whose workers stop, go, come back or answer too late.
#![cfg(feature = "tonic")]
#![expect(clippy::unwrap_used, reason = "a failure is the test's")]

mod real;

use std::io::{BufRead, BufReader};
use std::net::SocketAddr;
use std::process::{Child, Command as Process, Stdio};

use bidi_session::tonic::Acceptor;
use bidi_session::{EventKind, Events, Pool, RoundError};

use real::{
    AT_ONCE, Connect, Host, LONG, Node, barrier, connected, disconnected, endpoint, next, pool,
    reply, soon, within,
};

/// Starts echoing workers and waits for their sessions.
async fn echoes(names: &[&str]) -> (Pool<Connect>, Events<Connect>, Vec<Host>) {
    let (pool, events) = pool(1);
    let mut hosts = Vec::new();
    for name in names {
        let host = Host::start(Node::echo(name, 1));
        pool.insert(*name, host.endpoint());
        hosts.push(host);
    }
    pool.ready(names, LONG).await.unwrap();
    (pool, events, hosts)
}

fn failed(error: RoundError) -> Vec<String> {
    match error {
        RoundError::Failed { failures, .. } => failures
            .iter()
            .map(|(worker, _)| worker.to_string())
            .collect(),
        other => panic!("not failed: {other}"),
    }
}

/// Set in the child process that is a worker.
const CHILD: &str = "BIDI_SESSION_TEST_WORKER";

/// A worker in a process of its own, which can be stopped.
struct Stoppable(Child, SocketAddr);

impl Stoppable {
    fn start() -> Self {
        let mut child = Process::new(std::env::current_exe().unwrap())
            .args(["--exact", "a_worker_in_a_child_process", "--nocapture"])
            .env(CHILD, "1")
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let lines = BufReader::new(child.stdout.take().unwrap()).lines();
        let address = lines
            .map_while(Result::ok)
            .find_map(|line| line.strip_prefix("listens ")?.parse().ok());
        Self(child, address.expect("the child did not start"))
    }

    fn signal(&self, signal: &str) {
        let id = self.0.id().to_string();
        let status = Process::new("kill").args([signal, &id]).status().unwrap();
        assert!(status.success());
    }
}

impl Drop for Stoppable {
    fn drop(&mut self) {
        // Reaches a stopped process as well.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// No test of its own: the other half of the tests that stop a process.
#[test]
fn a_worker_in_a_child_process() {
    if std::env::var_os(CHILD).is_none() {
        return;
    }
    let host = Host::start(Node::echo("w2", 1));
    println!("\nlistens {}", host.address);
    // The parent's end of the pipe closes with it.
    let _ = std::io::read_to_string(std::io::stdin());
}

#[tokio::test]
async fn removing_a_stopped_worker_fails_its_round_at_once() {
    let (pool, _events, _hosts) = echoes(&["w1", "w3"]).await;
    let stopped = Stoppable::start();
    for id in [1, 3] {
        pool.insert("w2", endpoint(stopped.1));
        pool.ready(&["w2"], LONG).await.unwrap();
        stopped.signal("-STOP");
        let round = pool
            .inject(id, ["w1", "w2", "w3"], |_| barrier(id))
            .unwrap();
        let waiting = tokio::spawn(round.collect(LONG));
        tokio::task::yield_now().await;
        assert!(pool.remove("w2"));
        if id == 3 {
            // Inserted again under its name: the old round has no answer all the same.
            pool.insert("w2", endpoint(stopped.1));
        }
        let ended = within(AT_ONCE, waiting).await.unwrap();
        assert_eq!(failed(ended.unwrap_err()), ["w2"]);
        let round = pool.inject(id + 1, ["w1", "w3"], |_| barrier(id + 1));
        let answers = within(AT_ONCE, round.unwrap().collect(LONG)).await.unwrap();
        assert_eq!(answers.len(), 2);
        stopped.signal("-CONT");
    }
    pool.ready(&["w2"], LONG).await.unwrap();
    println!("CASE L01 fault={}", pool.state("w2").unwrap().generation);
}

#[tokio::test]
async fn a_removal_and_an_answer_at_the_same_instant_end_a_round_once() {
    let (pool, _events, hosts) = echoes(&["w1", "w2"]).await;
    let mut removed = 0;
    for id in 1..=300 {
        pool.ready(&["w1", "w2"], LONG).await.unwrap();
        let round = pool.inject(id, ["w1", "w2"], |_| barrier(id)).unwrap();
        let waiting = tokio::spawn(round.collect(LONG));
        for _ in 0..id % 50 {
            tokio::task::yield_now().await;
        }
        pool.remove("w2");
        match within(AT_ONCE, waiting).await.unwrap() {
            Ok(answers) => assert_eq!(answers.len(), 2),
            Err(error) => {
                assert_eq!(failed(error), ["w2"]);
                removed += 1;
            }
        }
        pool.insert("w2", hosts[1].endpoint());
    }
    assert!(removed > 0);
    println!("CASE L01-race fault={removed}");
}

#[tokio::test]
async fn a_late_answer_is_counted_and_completes_no_other_round() {
    let (pool, mut events, mut hosts) = echoes(&["w1"]).await;
    connected(&mut events).await;
    let (node, mut sessions) = Node::played(Acceptor::new("w2", 1, 0));
    let host = Host::start(node);
    pool.insert("w2", host.endpoint());
    connected(&mut events).await;
    let mut session = soon(sessions.recv()).await.unwrap();
    let round = pool.inject(10, ["w2"], |_| barrier(10)).unwrap();
    assert_eq!(soon(session.recv()).await.unwrap().epoch, 10);
    drop(round);
    let round = pool.inject(11, ["w1", "w2"], |_| barrier(11)).unwrap();
    hosts.remove(0).kill();
    assert_eq!(failed(soon(round.collect(LONG)).await.unwrap_err()), ["w1"]);
    disconnected(&mut events).await;
    // Recovery goes on with the worker that is left; its old answers come meanwhile.
    let round = pool.inject(12, ["w2"], |_| barrier(12)).unwrap();
    let waiting = tokio::spawn(round.collect(LONG));
    for epoch in [10, 11, 11, 10] {
        session.send(reply(epoch)).await.unwrap();
    }
    session.send(real::note("read up to here")).await.unwrap();
    let event = next(&mut events).await;
    assert!(matches!(event.kind, EventKind::Message(_)), "{event:?}");
    assert!(!waiting.is_finished());
    session.send(reply(12)).await.unwrap();
    let answers = soon(waiting).await.unwrap().unwrap();
    assert_eq!(answers[0].1, reply(12));
    session.send(reply(11)).await.unwrap();
    session.send(reply(99)).await.unwrap();
    session.send(real::note("the end")).await.unwrap();
    next(&mut events).await;
    let counters = pool.counters();
    assert_eq!(counters.late + counters.duplicate, 5, "{counters:?}");
    assert!(counters.late >= 2, "{counters:?}");
    assert_eq!(counters.unknown, 1, "{counters:?}");
    println!("CASE L03 fault={}", counters.late + counters.duplicate);
}

#[tokio::test]
async fn a_worker_without_a_share_in_the_rounds_can_break() {
    let (pool, mut events, mut hosts) = echoes(&["w1", "w2", "w3"]).await;
    for _ in 0..3 {
        connected(&mut events).await;
    }
    let mut lost = None;
    for id in 1..=200 {
        let round = pool.inject(id, ["w1", "w2"], |_| barrier(id)).unwrap();
        if id == 50 {
            hosts.remove(2).kill();
        }
        let answers = within(AT_ONCE, round.collect(LONG)).await.unwrap();
        assert_eq!(answers.len(), 2);
    }
    let event = next(&mut events).await;
    if matches!(event.kind, EventKind::Disconnected { .. }) {
        lost = Some(event.worker.to_string());
    }
    assert_eq!(lost.as_deref(), Some("w3"), "{:?}", event.kind);
    println!("CASE L10 fault={}", event.generation);
}
