//! Connections that look open but whose other side is gone.

use std::time::Duration;

use bidi_session::tonic::{Acceptor, Session};
use tokio::sync::mpsc;
use tokio::time::Instant;
use tonic::Status;

use crate::support::{
    Accepting, Command, Host, LONG, Proxy, Raw, Reply, endpoint, next, pool, soon,
};

#[tokio::test]
async fn both_sides_notice_a_silent_network_within_the_detection_time() {
    let (ended, mut has_ended) = mpsc::channel(1);
    let script = move |mut session: Session<Command, Reply>| {
        let ended = ended.clone();
        async move {
            while session.recv().await.is_some() {}
            ended.send(()).await.ok();
        }
    };
    let host = Host::start(Accepting::new(Acceptor::new("w1", 1, 0), script));
    let proxy = Proxy::start(host.address).await;
    let (pool, mut events) = pool(1);
    pool.insert("w1", endpoint(proxy.address));
    assert_eq!(next(&mut events).await, "w1 connected to 1");
    proxy.go_black();
    let black = Instant::now();
    // 5 s until the ping and 5 s for its answer, each with some air.
    let limit = Duration::from_secs(13);
    let lost = next(&mut events).await;
    assert!(lost.starts_with("w1 lost: "), "{lost}");
    assert!(black.elapsed() < limit, "{:?}", black.elapsed());
    soon(has_ended.recv()).await.unwrap();
    assert!(black.elapsed() < limit, "{:?}", black.elapsed());
    // The connection was up all the time: both have spoken into the void.
    assert!(proxy.swallowed() > 0);
}

#[tokio::test]
async fn an_idle_session_with_a_live_peer_stays() {
    let host = Host::echo("w1", 1);
    let proxy = Proxy::start(host.address).await;
    let (pool, mut events) = pool(1);
    pool.insert("w1", endpoint(proxy.address));
    assert_eq!(next(&mut events).await, "w1 connected to 1");
    let silent = tokio::time::timeout(Duration::from_secs(12), events.recv()).await;
    assert!(silent.is_err(), "{silent:?}");
    assert_eq!(pool.state("w1").unwrap().generation, 1);
}

#[tokio::test]
async fn a_peer_that_forbids_pings_is_left_in_peace_from_the_first_complaint_on() {
    let host = Host::start(Raw::new(async |_request| {
        Err(Status::unavailable("Too many pings"))
    }));
    let proxy = Proxy::start(host.address).await;
    let (pool, mut events) = pool(1);
    pool.insert("w1", endpoint(proxy.address));
    let failed = next(&mut events).await;
    assert!(failed.contains("Too many pings"), "{failed}");
    drop(host);
    // The next server at this address is patient; that is not known of it.
    let listener = std::net::TcpListener::bind(proxy.target).unwrap();
    let acceptor = Acceptor::new("w1", 1, 0);
    let script = |mut session: Session<Command, Reply>| async move {
        while session.recv().await.is_some() {}
    };
    let _host = Host::start_silent(listener, Accepting::new(acceptor, script));
    pool.ready(["w1"], LONG).await.unwrap();
    // Past the exchange at the start; a ping of 5 s would fall into the next 7.
    tokio::time::sleep(Duration::from_secs(1)).await;
    let before = proxy.sent();
    tokio::time::sleep(Duration::from_secs(7)).await;
    assert_eq!(proxy.sent(), before);
}
