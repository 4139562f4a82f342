//! Handshakes that a worker cannot read, or must not believe.

use std::net::SocketAddr;

use bidi_session::tonic::Acceptor;
use bidi_session::{EventKind, Phase};
use proptest::prelude::*;
use proptest::test_runner::{Config, TestRunner};
use tonic::{Code, Status};

use super::raw::{Headers, call, header, hello, with, word};
use super::real::{Host, Node, connected, echo, failed_attempt, pool, soon};

/// Handshakes that are refused, each with the refusal's word.
fn refused() -> Vec<(Headers, &'static str, Code)> {
    let fresh = || hello(5, 0xff, 1);
    let without = |name: &'static str| {
        let mut headers = fresh();
        headers.retain(|(known, _)| *known != name);
        headers
    };
    let mut table: Vec<_> = [
        "bidi-session-version",
        "bidi-session-term",
        "bidi-session-pool",
        "bidi-session-generation",
        "bidi-session-worker",
    ]
    .into_iter()
    .map(|name| (without(name), "malformed", Code::InvalidArgument))
    .collect();
    for (name, value) in [
        ("bidi-session-version", "2"),
        ("bidi-session-version", ""),
        ("bidi-session-term", "0"),
        ("bidi-session-term", "+5"),
        ("bidi-session-term", "-5"),
        ("bidi-session-term", "5.0"),
        ("bidi-session-term", "18446744073709551616"),
        ("bidi-session-pool", "ff"),
        ("bidi-session-pool", "000000000000000000000000000000FF"),
        ("bidi-session-generation", "x"),
        ("bidi-session-worker", "w1%"),
        ("bidi-session-worker", "w1%0"),
        ("bidi-session-worker", "%FF"),
        ("bidi-session-scope", "%zz"),
        ("bidi-session-incarnation", "first"),
    ] {
        let headers = with(fresh(), name, value);
        table.push((headers, "malformed", Code::InvalidArgument));
    }
    for (name, value, word) in [
        ("bidi-session-scope", "life%2Fmeta", "wrong-scope"),
        ("bidi-session-worker", "w2", "wrong-worker"),
        ("bidi-session-worker", "", "wrong-worker"),
        ("bidi-session-incarnation", "41", "wrong-incarnation"),
        ("bidi-session-term", "3", "lower-term"),
    ] {
        table.push((with(fresh(), name, value), word, Code::FailedPrecondition));
    }
    table
}

/// Checks a worker `w1` of incarnation 40 that was given the mark 4: it refuses what the
/// page says it must, with what the page says it tells.
pub(crate) async fn refuses_by_the_page(address: SocketAddr) {
    for (headers, expected, code) in refused() {
        let status = refusal(address, &headers).await;
        assert_eq!(
            (&*word(&status), status.code()),
            (expected, code),
            "{headers:?}"
        );
        assert_eq!(
            header(&status, "bidi-session-version").as_deref(),
            Some("1")
        );
        let told = match expected {
            "lower-term" => ("bidi-session-highest", "4"),
            "wrong-worker" => ("bidi-session-worker", "w1"),
            "wrong-incarnation" => ("bidi-session-incarnation", "40"),
            _ => continue,
        };
        assert_eq!(
            header(&status, told.0).as_deref(),
            Some(told.1),
            "{status:?}"
        );
    }
    // A refused stream changed nothing: the lowest term that is allowed still gets in.
    let line = call(address, &hello(4, 1, 7)).await.expect("admitted");
    assert_eq!(
        line.headers.get("bidi-session-worker").expect("a name"),
        "w1"
    );
    assert_eq!(
        line.headers
            .get("bidi-session-incarnation")
            .expect("a life"),
        "40"
    );
    assert_eq!(
        line.headers.get("bidi-session-version").expect("a version"),
        "1"
    );
    for (headers, expected, code) in [
        (hello(4, 1, 7), "stale-generation", Code::Aborted),
        (hello(4, 1, 6), "stale-generation", Code::Aborted),
        (hello(4, 2, 9), "term-taken", Code::AlreadyExists),
    ] {
        let status = refusal(address, &headers).await;
        assert_eq!(
            (&*word(&status), status.code()),
            (expected, code),
            "{headers:?}"
        );
    }
    // Odd, and allowed: leading zeros, lower-case escapes, headers nobody knows, a header
    // twice, of which the first counts.
    let mut odd = with(hello(4, 1, 8), "bidi-session-worker", "%77%31");
    odd = with(odd, "bidi-session-generation", "0008");
    odd = with(odd, "bidi-session-scope", "");
    odd = with(odd, "bidi-session-incarnation", "040");
    odd.push(("bidi-session-term", "0".to_owned()));
    odd.push(("bidi-session-later", "?".to_owned()));
    call(address, &odd).await.expect("admitted");
}

async fn refusal(address: SocketAddr, headers: &Headers) -> Status {
    match call(address, headers).await {
        Err(status) => status,
        Ok(_) => panic!("admitted: {headers:?}"),
    }
}

#[tokio::test]
async fn an_acceptor_refuses_as_the_page_says() {
    let host = Host::start(Node::new(Acceptor::new("w1", 40, 4), echo));
    refuses_by_the_page(host.address).await;
}

/// A header's value: something that is nearly right, or anything that can be sent.
fn value() -> impl Strategy<Value = String> {
    prop_oneof![
        "[0-9]{0,22}",
        "[0-9a-fA-F]{31,33}",
        "(%[0-9a-fA-F]{0,2}|[a-z]){0,8}",
        "[ -~]{0,600}",
        Just("1".to_owned()),
        Just("w1".to_owned()),
    ]
}

const NAMES: [&str; 8] = [
    "bidi-session-version",
    "bidi-session-term",
    "bidi-session-pool",
    "bidi-session-generation",
    "bidi-session-worker",
    "bidi-session-scope",
    "bidi-session-incarnation",
    "bidi-session-refused",
];

#[test]
fn no_header_breaks_a_worker_and_every_refusal_is_short() {
    let host = Host::start(Node::new(Acceptor::new("w1", 40, 4), echo));
    let runtime = tokio::runtime::Runtime::new().expect("a runtime");
    let mut runner = TestRunner::new(Config {
        failure_persistence: None,
        ..Config::with_cases(200)
    });
    let changes = proptest::collection::vec((0..NAMES.len(), value()), 1..4);
    let outcome = runner.run(&changes, |changes| {
        let mut headers = hello(5, 0xff, 1);
        for (name, value) in &changes {
            headers = with(headers, NAMES[*name], value);
        }
        match runtime.block_on(call(host.address, &headers)) {
            Ok(_) => {}
            Err(status) => {
                let word = header(&status, "bidi-session-refused");
                prop_assert!(word.is_some(), "no refusal: {status:?}");
                prop_assert!(status.message().len() < 300, "{status:?}");
            }
        }
        Ok(())
    });
    // The seed of a failure is in its text.
    outcome.unwrap_or_else(|failure| panic!("{failure}"));
    let last = hello(u64::MAX, 1, 1);
    runtime
        .block_on(call(host.address, &last))
        .expect("the worker still admits");
}

#[tokio::test]
async fn a_name_that_no_header_can_hold_is_a_failed_attempt_of_that_worker() {
    let node = Node::echo("w1", 1);
    let host = Host::start(node.clone());
    let (pool, mut events) = pool(1);
    pool.insert("w1", host.endpoint());
    connected(&mut events).await;
    let long = "x".repeat(100_000);
    pool.insert(&*long, host.endpoint());
    let text = failed_attempt(&mut events).await;
    println!("{text}");
    assert!(text.len() <= 320, "{text}");
    let blank = "a name\nof two lines, ü";
    pool.insert(blank, host.endpoint());
    loop {
        let event = soon(events.recv()).await.expect("open");
        let EventKind::AttemptFailed { error, .. } = event.kind else {
            panic!("{event:?}");
        };
        if event.worker.as_str() == blank {
            assert_eq!(error.text, "another worker answers: w1");
            break;
        }
    }
    assert_eq!(pool.state("w1").expect("in the pool").phase, Phase::Up);
}
