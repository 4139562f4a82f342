//! Streams that a worker must not admit: stale, foreign, delayed.

use std::time::Duration;

use bidi_session::tonic::Acceptor;
use bidi_session::{DisconnectReason, EventKind, Phase, PoolConfig};
use tonic::metadata::MetadataMap;
use tonic::{Code, Request, Status, Streaming};

use crate::support::worker_v1::worker_client::WorkerClient;
use crate::support::{
    Accepting, Host, LONG, Pool, Reply, barrier, connector, echo, endpoint, next, note, pool, soon,
};

/// Opens a stream with these headers, as a controller in another language would.
async fn knock(host: &Host, headers: &[(&'static str, &str)]) -> Result<Streaming<Reply>, Status> {
    let channel = endpoint(host.address).connect().await.unwrap();
    let mut request = Request::new(futures_util::stream::pending());
    for (name, value) in headers {
        request.metadata_mut().insert(*name, value.parse().unwrap());
    }
    let answer = soon(WorkerClient::new(channel).control(request)).await?;
    Ok(answer.into_inner())
}

fn hello(generation: &'static str) -> Vec<(&'static str, &'static str)> {
    vec![
        ("bidi-session-version", "1"),
        ("bidi-session-term", "3"),
        ("bidi-session-pool", "000000000000000000000000000000aa"),
        ("bidi-session-generation", generation),
        ("bidi-session-worker", "w1"),
    ]
}

fn header<'a>(metadata: &'a MetadataMap, name: &str) -> &'a str {
    metadata.get(name).unwrap().to_str().unwrap()
}

#[tokio::test]
async fn a_lower_term_is_refused_and_hears_of_the_higher_one() {
    let (w1, w2) = (Host::echo("w1", 1), Host::echo("w2", 1));
    let (new, _new_events) = pool(5);
    new.insert("w1", endpoint(w1.address));
    new.ready(["w1"], LONG).await.unwrap();
    let (old, mut events) = pool(4);
    old.insert("w1", endpoint(w1.address));
    assert_eq!(next(&mut events).await, "w1 saw term 5");
    let state = old.state("w1").unwrap();
    assert_eq!(state.phase, Phase::Blocked);
    assert!(state.retry_in.unwrap() > Duration::from_secs(9), "{state}");
    // One worker that refuses does not stop the others.
    old.insert("w2", endpoint(w2.address));
    old.ready(["w2"], LONG).await.unwrap();
    let round = old.inject(1, ["w2"], |_| barrier(1)).unwrap();
    round.collect(LONG).await.unwrap();
    // Nor does the refused stream touch the session of the higher term.
    let round = new.inject(1, ["w1"], |_| barrier(1)).unwrap();
    round.collect(LONG).await.unwrap();
}

#[tokio::test]
async fn a_worker_that_was_given_its_mark_refuses_below_it_after_a_restart() {
    let acceptor = Acceptor::new("w1", 1, 8);
    let host = Host::start(Accepting::new(acceptor.clone(), echo));
    let (old, mut events) = pool(7);
    old.insert("w1", endpoint(host.address));
    assert_eq!(next(&mut events).await, "w1 saw term 8");
    let (same, _events) = pool(8);
    same.insert("w1", endpoint(host.address));
    same.ready(["w1"], LONG).await.unwrap();
    assert_eq!(acceptor.highest(), 8);
}

#[tokio::test]
async fn another_scope_is_refused_however_high_its_term() {
    let acceptor = Acceptor::new("w1", 1, 0).with_scope("here");
    let host = Host::start(Accepting::new(acceptor.clone(), echo));
    let (stranger, mut events) = pool(99);
    stranger.insert("w1", endpoint(host.address));
    let failed = next(&mut events).await;
    assert!(failed.contains("another scope"), "{failed}");
    assert_eq!(acceptor.highest(), 0);
    let config = PoolConfig::new(1).with_scope("here");
    let (own, _own_events) = Pool::new(connector(), config);
    own.insert("w1", endpoint(host.address));
    own.ready(["w1"], LONG).await.unwrap();
    // The operator's way out after the store was rebuilt: the lower term counts anew.
    acceptor.reset("rebuilt", 0);
    let config = PoolConfig::new(1).with_scope("rebuilt");
    let (rebuilt, _rebuilt_events) = Pool::new(connector(), config);
    rebuilt.insert("w1", endpoint(host.address));
    rebuilt.ready(["w1"], LONG).await.unwrap();
}

#[tokio::test]
async fn two_ids_at_one_address_do_not_push_each_other_out() {
    let host = Host::echo("right", 1);
    let config = PoolConfig::new(1).with_blocked_retry(Duration::from_millis(20));
    let (pool, mut events) = Pool::new(connector(), config);
    pool.insert("right", endpoint(host.address));
    pool.ready(["right"], LONG).await.unwrap();
    assert_eq!(next(&mut events).await, "right connected to 1");
    pool.insert("wrong", endpoint(host.address));
    for epoch in 1..=20 {
        let failed = next(&mut events).await;
        assert_eq!(failed, "wrong failed: another worker answers: right");
        let round = pool.inject(epoch, ["right"], |_| barrier(epoch)).unwrap();
        round.collect(LONG).await.unwrap();
    }
    assert_eq!(pool.state("right").unwrap().generation, 1);
}

#[tokio::test]
async fn another_incarnation_than_the_expected_one_is_refused_until_it_comes() {
    let host = Host::echo("w1", 41);
    let (pool, mut events) = pool(1);
    pool.insert_incarnation("w1", endpoint(host.address), 40);
    let failed = next(&mut events).await;
    assert!(failed.contains("incarnation than expected: 41"), "{failed}");
    // Another expectation is another target, and is tried at once.
    pool.insert_incarnation("w1", endpoint(host.address), 41);
    assert_eq!(next(&mut events).await, "w1 connected to 41");
}

#[tokio::test]
async fn a_second_pool_of_the_same_term_waits_until_the_first_is_gone() {
    let host = Host::echo("w1", 1);
    let (first, mut first_events) = pool(3);
    first.insert("w1", endpoint(host.address));
    assert_eq!(next(&mut first_events).await, "w1 connected to 1");
    let (second, mut events) = pool(3);
    second.insert("w1", endpoint(host.address));
    let mut last = Duration::ZERO;
    for _ in 0..4 {
        let failed = next(&mut events).await;
        assert!(failed.contains("another pool of the same term"), "{failed}");
        last = second.state("w1").unwrap().retry_in.unwrap_or_default();
    }
    let round = first.inject(1, ["w1"], |_| barrier(1)).unwrap();
    round.collect(LONG).await.unwrap();
    assert!(first_events.try_recv().is_none());
    drop(first);
    // It heals by itself, with the usual backoff and not the slow one.
    second
        .ready(["w1"], last + Duration::from_secs(4))
        .await
        .unwrap();
}

#[tokio::test]
async fn an_older_attempt_that_was_delayed_does_not_push_out_its_successor() {
    let host = Host::echo("w1", 1);
    let mut newer = knock(&host, &hello("2")).await.unwrap();
    let older = knock(&host, &hello("1")).await.unwrap_err();
    assert_eq!(older.code(), Code::Aborted);
    let refused = header(older.metadata(), "bidi-session-refused");
    assert_eq!(refused, "stale-generation");
    let repeated = knock(&host, &hello("2")).await.unwrap_err();
    assert_eq!(repeated.code(), Code::Aborted);
    let ended = tokio::time::timeout(Duration::from_millis(200), newer.message()).await;
    assert!(ended.is_err(), "{ended:?}");
    // A higher one of the same pool takes over at once.
    let _newest = knock(&host, &hello("3")).await.unwrap();
    let ended = soon(newer.message()).await.unwrap_err();
    assert_eq!(ended.code(), Code::Aborted);
    assert!(ended.message().contains("newer session"), "{ended}");
}

#[tokio::test]
async fn a_call_without_a_handshake_is_refused_with_the_missing_header() {
    let host = Host::echo("w1", 1);
    for missing in 0..hello("1").len() {
        let mut headers = hello("1");
        let (name, _) = headers.remove(missing);
        let refused = knock(&host, &headers).await.unwrap_err();
        assert_eq!(refused.code(), Code::InvalidArgument, "{name}");
        assert!(refused.message().contains(name), "{refused}");
        let why = header(refused.metadata(), "bidi-session-refused");
        assert_eq!(why, "malformed");
    }
    assert!(knock(&host, &hello("1")).await.is_ok());
}

#[tokio::test]
async fn a_closed_acceptor_ends_its_session_and_refuses_others() {
    let acceptor = Acceptor::new("w1", 1, 0);
    let host = Host::start(Accepting::new(acceptor.clone(), echo));
    let (pool, mut events) = pool(1);
    pool.insert("w1", endpoint(host.address));
    assert_eq!(next(&mut events).await, "w1 connected to 1");
    acceptor.close();
    let event = soon(events.recv()).await.unwrap();
    let EventKind::Disconnected {
        reason: DisconnectReason::Failed(why),
    } = event.kind
    else {
        panic!("{event:?}");
    };
    assert!(why.text.contains("acceptor was closed"), "{why}");
    assert!(pool.try_send("w1", note("x")).is_err());
    let failed = next(&mut events).await;
    assert!(failed.contains("acceptor was closed"), "{failed}");
}
