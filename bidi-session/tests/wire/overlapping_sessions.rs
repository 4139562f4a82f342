//! Takeovers: an old session must not go on beside, or instead of, a new one.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use bidi_session::tonic::{Acceptor, Session, SessionSender};
use tokio::sync::{Notify, mpsc};
use tokio::time::Instant;

use crate::support::{
    Accepting, Command, Gauge, Host, LONG, Reply, answer, barrier, endpoint, next, note, pool,
    soon, told,
};

type Sessions = mpsc::Receiver<Session<Command, Reply>>;

/// A worker whose sessions are handed to the test; a handler ends when the test drops
/// its session.
fn handed_over() -> (Host, Gauge, Sessions) {
    let (sessions, taken) = mpsc::channel(16);
    let handlers = Gauge::new();
    let inside = handlers.clone();
    let script = move |session: Session<_, _>| {
        let (sessions, inside) = (sessions.clone(), inside.enter());
        async move {
            let _inside = inside;
            let sender = session.sender();
            sessions.send(session).await.unwrap();
            sender.over().await;
        }
    };
    let host = Host::start(Accepting::new(Acceptor::new("w1", 1, 0), script));
    (host, handlers, taken)
}

#[tokio::test]
async fn the_old_session_is_over_the_moment_a_higher_term_arrives() {
    let (host, handlers, mut sessions) = handed_over();
    let (old, mut old_events) = pool(1);
    old.insert("w1", endpoint(host.address));
    let mut first = soon(sessions.recv()).await.unwrap();
    old.ready(["w1"], LONG).await.unwrap();
    for number in 0..10 {
        old.send("w1", note(vec![number])).await.unwrap();
    }
    // One was read; the others are buffered.
    assert_eq!(soon(first.recv()).await.unwrap().body, [0]);
    let (new, _new_events) = pool(2);
    new.insert("w1", endpoint(host.address));
    let mut second = soon(sessions.recv()).await.unwrap();
    assert_eq!((first.term(), second.term()), (1, 2));
    assert_eq!(first.recv().await, None, "a buffered message came through");
    assert!(first.send(told("late")).await.is_err());
    assert!(first.sender().try_send(told("late")).unwrap_err().is_over);
    assert_eq!(next(&mut old_events).await, "w1 connected to 1");
    let lost = next(&mut old_events).await;
    assert!(lost.contains("a newer session took over"), "{lost}");
    assert_eq!(next(&mut old_events).await, "w1 saw term 2");
    // The new one works, whoever still holds the old one.
    new.ready(["w1"], LONG).await.unwrap();
    let round = new.inject(1, ["w1"], |_| barrier(1)).unwrap();
    assert_eq!(soon(second.recv()).await, Some(barrier(1)));
    second.send(answer(1)).await.unwrap();
    round.collect(LONG).await.unwrap();
    assert_eq!(handlers.most(), 1);
}

#[tokio::test]
async fn handlers_never_overlap_however_often_sessions_change() {
    let handlers = Gauge::new();
    let inside = handlers.clone();
    let script = move |mut session: Session<Command, Reply>| {
        let inside = inside.clone();
        async move {
            let inside = inside.enter();
            session.send(told(session.term().to_string())).await.ok();
            while session.recv().await.is_some() {}
            // Cleans up after its session.
            tokio::task::yield_now().await;
            drop(inside);
        }
    };
    let host = Host::start(Accepting::new(Acceptor::new("w1", 1, 0), script));
    let mut pools = Vec::new();
    for term in 1..=60 {
        let (pool, mut events) = pool(term);
        pool.insert("w1", endpoint(host.address));
        assert_eq!(next(&mut events).await, "w1 connected to 1");
        assert_eq!(next(&mut events).await, format!("w1 said {term}"));
        // Half of them are pushed out, half of them have left.
        if term % 2 == 0 {
            pools.push((pool, events));
        }
    }
    assert_eq!(handlers.most(), 1);
    drop(pools);
    handlers.until(0).await;
}

#[tokio::test]
async fn a_handler_that_hangs_is_dropped_after_5_s_and_then_the_newer_begins() {
    let handlers = Gauge::new();
    let inside = handlers.clone();
    let script = move |session: Session<Command, Reply>| {
        let inside = inside.enter();
        async move {
            let _inside = inside;
            let _session = session;
            std::future::pending::<()>().await;
        }
    };
    let host = Host::start(Accepting::new(Acceptor::new("w1", 1, 0), script));
    let (old, _old_events) = pool(1);
    old.insert("w1", endpoint(host.address));
    old.ready(["w1"], LONG).await.unwrap();
    let (new, mut events) = pool(2);
    let start = Instant::now();
    new.insert("w1", endpoint(host.address));
    assert_eq!(next(&mut events).await, "w1 connected to 1");
    let waited = start.elapsed();
    assert!(waited >= Duration::from_millis(4900), "{waited:?}");
    assert!(waited < Duration::from_millis(7500), "{waited:?}");
    assert_eq!(handlers.most(), 1);
}

#[tokio::test]
async fn a_handler_that_blocks_its_thread_cannot_hold_the_place_for_ever() {
    let (release, held) = std::sync::mpsc::channel::<()>();
    let held = Arc::new(Mutex::new(Some(held)));
    let script = move |mut session: Session<Command, Reply>| {
        let held = held.lock().unwrap().take();
        async move {
            session.send(told("here")).await.ok();
            if let Some(held) = held {
                // Blocks on purpose: no await to drop it at.
                tokio::task::block_in_place(|| held.recv().ok());
            }
            while session.recv().await.is_some() {}
        }
    };
    let host = Host::start(Accepting::new(Acceptor::new("w1", 1, 0), script));
    let (old, mut old_events) = pool(1);
    old.insert("w1", endpoint(host.address));
    assert_eq!(next(&mut old_events).await, "w1 connected to 1");
    assert_eq!(next(&mut old_events).await, "w1 said here");
    let (new, mut events) = pool(2);
    new.insert("w1", endpoint(host.address));
    assert_eq!(next(&mut events).await, "w1 connected to 1");
    assert_eq!(next(&mut events).await, "w1 said here");
    // Too late: the place that it gives back is no longer its own.
    drop(release);
    new.send("w1", note("x")).await.unwrap();
    let quiet = tokio::time::timeout(Duration::from_millis(300), events.recv()).await;
    assert!(quiet.is_err(), "{quiet:?}");
}

#[tokio::test]
async fn a_panic_of_the_handler_reaches_the_controller_as_an_error() {
    let script = |mut session: Session<Command, Reply>| async move {
        session.recv().await;
        panic!("the test asked for it");
    };
    let host = Host::start(Accepting::new(Acceptor::new("w1", 1, 0), script));
    let (pool, mut events) = pool(1);
    pool.insert("w1", endpoint(host.address));
    assert_eq!(next(&mut events).await, "w1 connected to 1");
    pool.try_send("w1", note("go")).unwrap();
    let lost = next(&mut events).await;
    assert!(lost.contains("handler ended abnormally"), "{lost}");
    // Its place is free again.
    assert_eq!(next(&mut events).await, "w1 connected to 1");
}

#[tokio::test]
async fn a_handler_that_returns_ends_the_stream_cleanly_after_what_is_queued() {
    let script = |session: Session<Command, Reply>| async move {
        for number in 0..200 {
            session.send(told(number.to_string())).await.unwrap();
        }
    };
    let host = Host::start(Accepting::new(Acceptor::new("w1", 1, 0), script));
    let (pool, mut events) = pool(1);
    pool.insert("w1", endpoint(host.address));
    assert_eq!(next(&mut events).await, "w1 connected to 1");
    for number in 0..200 {
        assert_eq!(next(&mut events).await, format!("w1 said {number}"));
    }
    let lost = next(&mut events).await;
    assert_eq!(lost, "w1 lost: the worker closed the stream");
}

#[tokio::test]
async fn a_sender_that_outlives_its_session_fails_and_holds_nothing_up() {
    let kept: Arc<Mutex<Vec<SessionSender<Reply>>>> = Arc::default();
    let leave = Arc::new(Notify::new());
    let (senders, left) = (kept.clone(), leave.clone());
    let script = move |session: Session<Command, Reply>| {
        let sender = session.sender();
        senders.lock().unwrap().push(sender);
        let left = left.clone();
        async move {
            let _session = session;
            left.notified().await;
        }
    };
    let host = Host::start(Accepting::new(Acceptor::new("w1", 1, 0), script));
    let (pool, mut events) = pool(1);
    pool.insert("w1", endpoint(host.address));
    assert_eq!(next(&mut events).await, "w1 connected to 1");
    let sender = kept.lock().unwrap()[0].clone();
    sender.send(told("while it lives")).await.unwrap();
    assert_eq!(next(&mut events).await, "w1 said while it lives");
    leave.notify_one();
    soon(sender.over()).await;
    assert!(sender.is_over());
    let refused = sender.send(told("late")).await.unwrap_err();
    assert_eq!(refused.message, told("late"));
    let lost = next(&mut events).await;
    assert_eq!(lost, "w1 lost: the worker closed the stream");
    assert_eq!(next(&mut events).await, "w1 connected to 1");
    assert!(sender.is_over());
}

#[tokio::test]
async fn a_target_that_is_replaced_supersedes_its_old_session_at_once() {
    let (host, handlers, mut sessions) = handed_over();
    let (pool, mut events) = pool(1);
    pool.insert("w1", endpoint(host.address));
    let first = soon(sessions.recv()).await.unwrap();
    assert_eq!(next(&mut events).await, "w1 connected to 1");
    let again = format!("http://localhost:{}", host.address.port());
    pool.insert("w1", again.parse::<http::Uri>().unwrap().into());
    let second = soon(sessions.recv()).await.unwrap();
    assert!(second.generation() > first.generation());
    let lost = next(&mut events).await;
    assert_eq!(lost, "w1 lost: the worker has another target");
    assert_eq!(next(&mut events).await, "w1 connected to 1");
    assert_eq!(handlers.most(), 1);
}
