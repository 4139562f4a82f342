//! A worker that accepts its stream and never answers.

use std::time::Duration;

use bidi_session::tonic::{FaultProxy, Flow, Way};
use bidi_session::{EventKind, Phase, PoolConfig, SendErrorKind};

use super::real::{Host, LONG, Node, command, endpoint, note, pool_with, soon};
use super::time::Watch;

#[tokio::test]
async fn s02_a_worker_that_never_answers_the_handshake_delays_nobody() {
    let config = PoolConfig::new(1).with_attempt_timeout(Duration::from_millis(500));
    let (pool, mut events) = pool_with(config);
    let names: Vec<String> = (0..10).map(|index| format!("w{index}")).collect();
    let silent = Node::echo("w4", 1);
    let host = Host::start(silent.clone());
    let proxy = FaultProxy::start(host.address).unwrap();
    // The worker gets the call; its answer is never seen.
    proxy.set(Way::ToClient, Flow::Swallow);
    let others: Vec<&String> = names.iter().filter(|name| *name != "w4").collect();
    let addresses = others.iter().map(|name| host.also(Node::echo(name, 1)));
    let addresses: Vec<_> = addresses.collect();
    let watch = Watch::start();
    pool.insert("w4", endpoint(proxy.address()));
    for (name, address) in others.iter().zip(addresses) {
        pool.insert(name.as_str(), endpoint(address));
    }
    pool.ready(&others, LONG).await.unwrap();
    watch.within(Duration::from_secs(1), "to have nine sessions");
    for name in &others {
        pool.try_send(name, command("hello")).unwrap();
    }
    let watch = Watch::start();
    let refused = pool.try_send("w4", command("hello")).unwrap_err();
    watch.within(Duration::from_millis(50), "a send that fails fast");
    assert_eq!(refused.kind, SendErrorKind::NotConnected);
    let mut answers = 0;
    let mut failures = 0;
    while answers < 9 || failures < 2 {
        let event = soon(events.recv()).await.unwrap();
        match event.kind {
            EventKind::Message(reply) => answers += u32::from(reply == note("hello")),
            EventKind::AttemptFailed { error, .. } => {
                assert_eq!(event.worker.as_str(), "w4");
                assert!(error.text.contains("within 0.5 s"), "{error}");
                failures += 1;
            }
            _ => {}
        }
    }
    let state = pool.state("w4").unwrap();
    assert!(state.attempts >= 2 && state.last_error.is_some(), "{state}");
    let is_retried = state.phase == Phase::Connecting || state.retry_in.is_some();
    assert!(is_retried, "{state}");
    let watch = Watch::start();
    assert!(pool.remove("w4"));
    watch.within(Duration::from_millis(50), "a removal");
    assert!(silent.calls() >= 2, "the worker had the call");
    let swallowed = proxy.counts().to_client.swallowed;
    assert!(swallowed > 0);
    println!("CASE S02 fault={swallowed}");
}
