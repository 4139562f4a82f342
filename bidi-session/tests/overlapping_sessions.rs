//! Sessions of one worker that live at the same time, or outlive their handler.
#![cfg(feature = "tonic")]

mod real;

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use bidi_session::EventKind;
use bidi_session::tonic::Acceptor;
use tokio::sync::{Notify, mpsc};
use tokio::time::Instant;

use real::{
    AT_ONCE, Host, Node, WorkerSession, answer, command, connected, disconnected, failed_attempt,
    next, note, pool, soon, within,
};

#[tokio::test]
async fn a_higher_term_ends_the_session_with_all_that_is_buffered() {
    let (node, mut sessions) = Node::played(Acceptor::new("w1", 1, 0));
    let host = Host::start(node);
    let (old, mut old_events) = pool(5);
    old.insert("w1", host.endpoint());
    let mut session = soon(sessions.recv()).await.unwrap();
    connected(&mut old_events).await;
    for _ in 0..100 {
        old.try_send("w1", command("buffered")).unwrap();
    }
    // The first is here, so others are on their way.
    assert!(soon(session.recv()).await.is_some());
    let sender = session.sender();
    let (new, mut new_events) = pool(6);
    new.insert("w1", host.endpoint());
    within(AT_ONCE, sender.over()).await;
    assert!(soon(session.recv()).await.is_none());
    let refused = soon(session.send(note("late"))).await.unwrap_err();
    assert_eq!(refused.message, note("late"));
    assert!(sender.try_send(note("late")).unwrap_err().is_over);
    let (_, reason) = disconnected(&mut old_events).await;
    assert!(reason.contains("newer session"), "{reason}");
    // The handler has returned, the handle that the test holds counts for nothing.
    connected(&mut new_events).await;
    assert_eq!(soon(sessions.recv()).await.unwrap().term(), 6);
}

#[tokio::test]
async fn the_newer_session_waits_for_the_older_handler_to_return() {
    let release = Arc::new(Notify::new());
    let live = Arc::new(AtomicU32::new(0));
    let (started, mut starts) = mpsc::channel(4);
    let node = {
        let (release, live) = (release.clone(), live.clone());
        Node::new(Acceptor::new("w1", 1, 0), move |session: WorkerSession| {
            let (release, live, started) = (release.clone(), live.clone(), started.clone());
            async move {
                let before = live.fetch_add(1, Ordering::SeqCst);
                started.send((session.term(), before)).await.unwrap();
                session.sender().over().await;
                // Winds up after the end of its session.
                release.notified().await;
                live.fetch_sub(1, Ordering::SeqCst);
            }
        })
    };
    let host = Host::start(node);
    let (old, mut old_events) = pool(5);
    old.insert("w1", host.endpoint());
    assert_eq!(soon(starts.recv()).await, Some((5, 0)));
    connected(&mut old_events).await;
    let (new, mut new_events) = pool(6);
    new.insert("w1", host.endpoint());
    disconnected(&mut old_events).await;
    assert!(starts.try_recv().is_err(), "the newer one must wait");
    release.notify_one();
    assert_eq!(soon(starts.recv()).await, Some((6, 0)));
    connected(&mut new_events).await;
}

/// Tells that it is dropped, and with it the handler that holds it.
struct TellDrop(u64, mpsc::Sender<u64>);

impl Drop for TellDrop {
    fn drop(&mut self) {
        self.1.try_send(self.0).expect("room for every handler");
    }
}

#[tokio::test]
async fn a_handler_that_hangs_is_dropped_after_five_seconds() {
    let (dropped, mut drops) = mpsc::channel(4);
    let node = Node::new(Acceptor::new("w1", 1, 0), move |session: WorkerSession| {
        let told = TellDrop(session.term(), dropped.clone());
        async move {
            let _held = (told, session);
            std::future::pending::<()>().await;
        }
    });
    let host = Host::start(node);
    let (old, mut old_events) = pool(5);
    old.insert("w1", host.endpoint());
    connected(&mut old_events).await;
    let (new, mut new_events) = pool(6);
    let start = Instant::now();
    new.insert("w1", host.endpoint());
    disconnected(&mut old_events).await;
    assert!(start.elapsed() < AT_ONCE);
    connected(&mut new_events).await;
    let waited = start.elapsed();
    assert!(waited >= Duration::from_millis(4900), "{waited:?}");
    assert!(waited < Duration::from_millis(6500), "{waited:?}");
    println!(
        "CASE takeover-of-a-hanging-handler fault={}",
        waited.as_millis()
    );
    // Before the newer session began, or at the same moment.
    assert_eq!(soon(drops.recv()).await, Some(5));
    assert!(drops.try_recv().is_err(), "the newer one lives");
}

#[tokio::test]
async fn a_handler_that_blocks_its_thread_does_not_keep_the_newer_session_out() {
    let (unblock, blocked) = std::sync::mpsc::channel::<()>();
    let blocked = Arc::new(std::sync::Mutex::new(blocked));
    let node = Node::new(Acceptor::new("w1", 1, 0), move |session: WorkerSession| {
        let blocked = blocked.clone();
        async move {
            if session.term() == 5 {
                // Stands for work that cannot be stopped; the runtime keeps running.
                tokio::task::block_in_place(|| {
                    let _ = blocked.lock().unwrap().recv();
                });
                assert!(session.send(note("late")).await.is_err());
            } else {
                real::echo(session).await;
            }
        }
    });
    let host = Host::start(node);
    let (old, mut old_events) = pool(5);
    old.insert("w1", host.endpoint());
    connected(&mut old_events).await;
    let (new, mut new_events) = pool(6);
    new.insert("w1", host.endpoint());
    connected(&mut new_events).await;
    drop(unblock);
    // The old handler's end does not free the place of the new one.
    new.try_send("w1", command("mine")).unwrap();
    assert_eq!(
        next(&mut new_events).await.kind,
        EventKind::Message(note("mine"))
    );
}

#[tokio::test]
async fn a_handler_that_returns_ends_the_stream_after_its_last_words() {
    let acceptor = Acceptor::new("w1", 1, 0);
    let node = Node::new(acceptor, |mut session: WorkerSession| async move {
        let command = session.recv().await.unwrap();
        for _ in 0..200 {
            session.send(answer(command.clone())).await.unwrap();
        }
    });
    let host = Host::start(node);
    let (pool, mut events) = pool(1);
    pool.insert("w1", host.endpoint());
    connected(&mut events).await;
    pool.try_send("w1", command("go")).unwrap();
    for _ in 0..200 {
        assert_eq!(next(&mut events).await.kind, EventKind::Message(note("go")));
    }
    let (_, reason) = disconnected(&mut events).await;
    assert_eq!(reason, "the worker closed the stream");
}

#[tokio::test]
async fn a_handler_that_panics_ends_the_stream_with_an_error_and_frees_the_place() {
    let node = Node::new(
        Acceptor::new("w1", 1, 0),
        |mut session: WorkerSession| async move {
            let command = session.recv().await;
            assert!(command.is_none(), "on purpose");
        },
    );
    let host = Host::start(node);
    let (pool, mut events) = pool(1);
    pool.insert("w1", host.endpoint());
    let (first, _) = connected(&mut events).await;
    pool.try_send("w1", command("go")).unwrap();
    let (ended, reason) = disconnected(&mut events).await;
    assert_eq!(ended, first);
    assert!(reason.contains("handler ended abnormally"), "{reason}");
    let (second, _) = connected(&mut events).await;
    assert!(second > first);
}

#[tokio::test]
async fn nothing_of_a_session_outlives_its_handler() {
    let (leaks, mut leaked) = mpsc::channel::<WorkerSession>(4);
    let node = Node::new(
        Acceptor::new("w1", 1, 0),
        move |mut session: WorkerSession| {
            let leaks = leaks.clone();
            async move {
                session.recv().await;
                leaks.send(session).await.unwrap();
            }
        },
    );
    let host = Host::start(node);
    let (pool, mut events) = pool(1);
    pool.insert("w1", host.endpoint());
    connected(&mut events).await;
    pool.try_send("w1", command("go")).unwrap();
    let mut session = soon(leaked.recv()).await.unwrap();
    disconnected(&mut events).await;
    assert!(soon(session.recv()).await.is_none());
    assert!(soon(session.send(note("late"))).await.is_err());
    connected(&mut events).await;
}

#[tokio::test]
async fn a_closed_acceptor_ends_its_session_and_refuses_others() {
    let node = Node::echo("w1", 1);
    let acceptor = node.acceptor.clone();
    let host = Host::start(node);
    let (pool, mut events) = pool(1);
    pool.insert("w1", host.endpoint());
    connected(&mut events).await;
    acceptor.close();
    let (_, reason) = disconnected(&mut events).await;
    assert!(reason.contains("acceptor was closed"), "{reason}");
    let text = failed_attempt(&mut events).await;
    assert!(text.contains("acceptor was closed"), "{text}");
}

#[tokio::test]
async fn a_sender_beside_the_handler_speaks_while_it_waits_for_commands() {
    let node = Node::new(
        Acceptor::new("w1", 1, 0),
        |session: WorkerSession| async move {
            let progress = session.sender();
            let beside = tokio::spawn(async move {
                let mut sent = 0_u32;
                while progress.send(note("progress")).await.is_ok() {
                    sent += 1;
                    tokio::task::yield_now().await;
                }
                sent
            });
            real::echo(session).await;
            assert!(beside.await.unwrap() > 0);
        },
    );
    let host = Host::start(node);
    let (pool, mut events) = pool(1);
    pool.insert("w1", host.endpoint());
    connected(&mut events).await;
    for _ in 0..1000 {
        assert_eq!(
            next(&mut events).await.kind,
            EventKind::Message(note("progress"))
        );
    }
    pool.try_send("w1", command("hello")).unwrap();
    while next(&mut events).await.kind != EventKind::Message(note("hello")) {}
}
