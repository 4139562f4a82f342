//! Controllers that must not get a session: deposed, late, doubled or misdirected.
#![cfg(feature = "tonic")]
#![expect(clippy::unwrap_used, reason = "a failure is the test's")]

mod real;

use bidi_session::tonic::Acceptor;
use bidi_session::{EventKind, OpenClass, Phase, PoolConfig};

use real::{
    Command, Host, Node, WorkerClient, command, connected, disconnected, failed_attempt, next,
    note, pool, pool_with, soon,
};
use tonic::{Code, Request, Status};

#[tokio::test]
async fn a_lower_term_is_refused_and_told_the_higher_one() {
    let node = Node::echo("w1", 1);
    let acceptor = node.acceptor.clone();
    let host = Host::start(node);
    let (leader, mut events) = pool(5);
    leader.insert("w1", host.endpoint());
    connected(&mut events).await;
    assert_eq!(acceptor.highest(), 5);
    let (deposed, mut deposed_events) = pool(4);
    deposed.insert("w1", host.endpoint());
    let event = next(&mut deposed_events).await;
    assert!(
        matches!(event.kind, EventKind::HigherTerm { term: 5, .. }),
        "{event:?}"
    );
    assert_eq!(deposed.state("w1").unwrap().phase, Phase::Blocked);
    // The session of the leader is untouched.
    leader.try_send("w1", command("still here")).unwrap();
    assert_eq!(
        next(&mut events).await.kind,
        EventKind::Message(note("still here"))
    );
}

#[tokio::test]
async fn a_restarted_worker_refuses_a_lower_term_by_the_mark_it_was_given() {
    let host = Host::start(Node::new(Acceptor::new("w1", 2, 5), real::echo));
    let (deposed, mut events) = pool(4);
    deposed.insert("w1", host.endpoint());
    let event = next(&mut events).await;
    assert!(
        matches!(event.kind, EventKind::HigherTerm { term: 5, .. }),
        "{event:?}"
    );
    let (leader, mut events) = pool(5);
    leader.insert("w1", host.endpoint());
    connected(&mut events).await;
}

#[tokio::test]
async fn two_ids_at_one_address_do_not_disturb_each_other() {
    let node = Node::echo("right", 1);
    let host = Host::start(node.clone());
    let (pool, mut events) = pool(1);
    pool.insert("right", host.endpoint());
    connected(&mut events).await;
    pool.insert("wrong", host.endpoint());
    let mut refusals = 0;
    while refusals < 3 {
        let event = soon(events.recv()).await.unwrap();
        assert_eq!(event.worker.as_str(), "wrong", "{event:?}");
        let EventKind::AttemptFailed { error, .. } = event.kind else {
            panic!("the wrong one has a session");
        };
        assert_eq!(error.class, OpenClass::Refused);
        assert!(error.text.contains("right"), "{error}");
        refusals += 1;
    }
    assert_eq!(pool.state("right").unwrap().phase, Phase::Up);
    assert!(node.calls() >= 4);
}

#[tokio::test]
async fn an_equal_term_of_another_pool_waits_until_the_session_is_gone() {
    let host = Host::start(Node::echo("w1", 1));
    let (first, mut first_events) = pool(5);
    first.insert("w1", host.endpoint());
    connected(&mut first_events).await;
    let (second, mut second_events) = pool(5);
    second.insert("w1", host.endpoint());
    let text = failed_attempt(&mut second_events).await;
    assert!(text.contains("another pool of the same term"), "{text}");
    assert_eq!(first.state("w1").unwrap().phase, Phase::Up);
    first.remove("w1");
    connected(&mut second_events).await;
}

#[tokio::test]
async fn another_scope_or_incarnation_is_refused_and_retried() {
    let acceptor = Acceptor::new("w1", 7, 0).with_scope("life/main");
    let host = Host::start(Node::new(acceptor.clone(), real::echo));
    let (stranger, mut events) = pool(9);
    stranger.insert("w1", host.endpoint());
    let text = failed_attempt(&mut events).await;
    assert!(text.contains("another scope"), "{text}");
    assert_eq!(
        acceptor.highest(),
        0,
        "a stranger's term counts for nothing"
    );
    let (pool, mut events) = pool_with(PoolConfig::new(1).with_scope("life/main"));
    pool.insert_incarnation("w1", host.endpoint(), 6);
    let text = failed_attempt(&mut events).await;
    assert!(text.contains("another incarnation"), "{text}");
    pool.insert_incarnation("w1", host.endpoint(), 7);
    assert_eq!(connected(&mut events).await.1, Some(7));
    // The operator's way out: the old scope ends, the new one begins.
    acceptor.reset("life 2/main", 3);
    disconnected(&mut events).await;
    let text = failed_attempt(&mut events).await;
    assert!(text.contains("another scope"), "{text}");
    assert_eq!(acceptor.highest(), 3);
}

/// Opens a stream as any client could, with these headers.
async fn raw_call(host: &Host, headers: &[(&'static str, &str)]) -> Result<(), Status> {
    let mut client = WorkerClient::new(host.endpoint().connect().await.unwrap());
    let mut request = Request::new(tokio_stream::pending::<Command>());
    for (name, value) in headers {
        request.metadata_mut().insert(*name, value.parse().unwrap());
    }
    let response = soon(client.control(request)).await?;
    let headers = response.metadata();
    assert_eq!(headers.get("bidi-session-worker").unwrap(), "w1");
    assert_eq!(headers.get("bidi-session-incarnation").unwrap(), "1");
    // The session is left half-open: nothing tells the worker of the end.
    std::mem::forget(response);
    Ok(())
}

fn hello(generation: &str) -> [(&'static str, &str); 5] {
    [
        ("bidi-session-version", "1"),
        ("bidi-session-term", "5"),
        ("bidi-session-pool", "000000000000000000000000000000ff"),
        ("bidi-session-generation", generation),
        ("bidi-session-worker", "w1"),
    ]
}

#[tokio::test]
async fn a_delayed_older_attempt_cannot_push_out_its_successor() {
    let (node, mut sessions) = Node::played(Acceptor::new("w1", 1, 0));
    let host = Host::start(node);
    raw_call(&host, &hello("2")).await.unwrap();
    let session = soon(sessions.recv()).await.unwrap();
    for late in ["1", "2"] {
        let status = raw_call(&host, &hello(late)).await.unwrap_err();
        assert_eq!(status.code(), Code::Aborted);
        let why = status.metadata().get("bidi-session-refused").unwrap();
        assert_eq!(why, "stale-generation");
    }
    assert!(!session.sender().is_over());
    // A newer one of the same pool takes over, though the older one never ended.
    raw_call(&host, &hello("3")).await.unwrap();
    assert!(session.sender().is_over());
    assert_eq!(soon(sessions.recv()).await.unwrap().generation(), 3);
}

#[tokio::test]
async fn a_client_that_does_not_speak_the_handshake_is_told_what_is_missing() {
    let host = Host::start(Node::echo("w1", 1));
    let status = raw_call(&host, &[]).await.unwrap_err();
    assert_eq!(status.code(), Code::InvalidArgument);
    assert!(
        status.message().contains("bidi-session-version"),
        "{status}"
    );
    let mut broken = hello("1");
    broken[1].1 = "5x";
    let status = raw_call(&host, &broken).await.unwrap_err();
    let why = status.metadata().get("bidi-session-refused").unwrap();
    assert_eq!(why, "malformed");
    assert!(status.message().contains("bidi-session-term"), "{status}");
}
