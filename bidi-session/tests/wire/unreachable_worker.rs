//! Workers that do not listen yet, never answer, or answer something else.

use std::time::Duration;

use bidi_session::tonic::Acceptor;
use bidi_session::{OpenClass, Phase, PoolConfig, SendErrorKind};
use futures_util::StreamExt;
use tokio::net::TcpListener;
use tonic::{Response, Status};

use crate::support::{
    Accepting, Gauge, Host, LONG, Pool, Raw, Replies, after_failures, barrier, connector, echo,
    endpoint, next, note, pool, reserve,
};

#[tokio::test]
async fn one_that_never_answers_the_handshake_holds_up_nobody() {
    let in_hand = Gauge::new();
    let calls = in_hand.clone();
    let silent = Host::start(Raw::new(move |_request| {
        let call = calls.enter();
        async move {
            let _call = call;
            std::future::pending().await
        }
    }));
    let config = PoolConfig::new(1).with_attempt_timeout(Duration::from_millis(700));
    let (pool, mut events) = Pool::new(connector(), config);
    pool.insert("w4", endpoint(silent.address));
    let names: Vec<String> = (10..19).map(|number| format!("w{number}")).collect();
    let hosts: Vec<Host> = names.iter().map(|name| Host::echo(name, 1)).collect();
    for (name, host) in names.iter().zip(&hosts) {
        pool.insert(name.as_str(), endpoint(host.address));
    }
    pool.ready(&names, LONG).await.unwrap();
    for name in &names {
        pool.try_send(name, note("hello")).unwrap();
    }
    while !next(&mut events).await.starts_with("w4 failed") {}
    let state = pool.state("w4").unwrap();
    let error = state.last_error.unwrap();
    assert!(error.contains("no session within 0.7 s"), "{error}");
    assert_eq!(state.attempts, 1);
    let refused = pool.try_send("w4", note("hello")).unwrap_err();
    assert_eq!(refused.kind, SendErrorKind::NotConnected);
    let missing = pool.ready(["w10", "w4"], Duration::ZERO).await.unwrap_err();
    assert_eq!(missing.missing.len(), 1);
    assert!(
        missing.to_string().contains("no session within"),
        "{missing}"
    );
    // In the middle of an attempt: the server loses the call at once.
    in_hand.until(1).await;
    assert!(pool.remove("w4"));
    in_hand.until(0).await;
    silent.connections.until(0).await;
    assert!(pool.state("w4").is_none());
}

#[tokio::test]
async fn one_that_accepts_and_says_nothing_ends_the_attempt_and_is_left() {
    let mute = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let config = PoolConfig::new(1).with_attempt_timeout(Duration::from_millis(300));
    let (pool, mut events) = Pool::new(connector(), config);
    pool.insert("w1", endpoint(mute.local_addr().unwrap()));
    let (mut socket, _) = mute.accept().await.unwrap();
    let failed = next(&mut events).await;
    assert!(failed.contains("no session within 0.3 s"), "{failed}");
    // The pool has closed its side.
    let mut bytes = Vec::new();
    tokio::io::AsyncReadExt::read_to_end(&mut socket, &mut bytes)
        .await
        .unwrap();
}

#[tokio::test]
async fn one_that_listens_late_is_used_within_one_step_of_the_backoff() {
    let (address, socket) = reserve();
    let live = Host::echo("w2", 1);
    let (pool, mut events) = pool(1);
    pool.insert("w1", endpoint(address));
    for _ in 0..3 {
        let failed = next(&mut events).await;
        assert!(failed.starts_with("w1 failed: "), "{failed}");
        assert!(failed.contains(&address.to_string()), "{failed}");
        assert!(failed.contains("refused"), "{failed}");
    }
    pool.insert("w2", endpoint(live.address));
    pool.ready(["w2"], LONG).await.unwrap();
    let round = pool.inject(1, ["w2"], |_| barrier(1)).unwrap();
    round.collect(LONG).await.unwrap();
    let listener = socket.listen(16).unwrap().into_std().unwrap();
    let acceptor = Acceptor::new("w1", 7, 0);
    let _late = Host::start_on(listener, Accepting::new(acceptor, echo));
    assert_eq!(next(&mut events).await, "w2 connected to 1");
    let step = pool.state("w1").unwrap().retry_in.unwrap_or_default();
    assert!(step <= Duration::from_secs(5), "{step:?}");
    pool.ready(["w1"], step + Duration::from_secs(2))
        .await
        .unwrap();
    assert_eq!(
        after_failures(&mut events, "w1 connected").await,
        "w1 connected to 7"
    );
    assert_eq!(pool.state("w1").unwrap().phase, Phase::Up);
}

#[tokio::test]
async fn a_server_without_the_handshake_is_told_what_to_do() {
    let plain = Host::start(Raw::new(async |_request| {
        Ok(Response::new(
            futures_util::stream::pending().boxed() as Replies
        ))
    }));
    let (pool, mut events) = pool(1);
    pool.insert("w1", endpoint(plain.address));
    let failed = next(&mut events).await;
    assert!(failed.contains("without a handshake"), "{failed}");
    assert!(failed.contains("as `Acceptor` does"), "{failed}");
    assert_eq!(pool.state("w1").unwrap().phase, Phase::Blocked);
    plain.connections.until(0).await;
}

#[tokio::test]
async fn a_server_that_reads_first_fails_the_attempt_and_does_not_hang_it() {
    let reader = Host::start(Raw::new(async |request: tonic::Request<_>| {
        let mut commands: tonic::Streaming<_> = request.into_inner();
        let first = commands.message().await?;
        Err(Status::internal(format!("{first:?} came first")))
    }));
    let (pool, mut events) = pool(1);
    pool.insert("w1", endpoint(reader.address));
    let failed = next(&mut events).await;
    assert!(failed.contains("no answer within 8 s"), "{failed}");
    assert!(failed.contains("before it reads"), "{failed}");
}

#[tokio::test]
async fn a_plain_status_is_an_attempt_that_failed_with_its_text() {
    let closed = Host::start(Raw::new(async |_request| {
        Err(Status::permission_denied("not you"))
    }));
    let (pool, mut events) = pool(1);
    pool.insert("w1", endpoint(closed.address));
    let event = events.recv().await.unwrap();
    let bidi_session::EventKind::AttemptFailed {
        error, attempts, ..
    } = event.kind
    else {
        panic!("{event:?}");
    };
    assert_eq!((error.class, attempts), (OpenClass::Refused, 1));
    assert!(error.text.contains("not you"), "{error}");
}
