//! What belongs to a session that is over.

mod double;

use std::collections::HashMap;

use bidi_session::{Event, EventKind, WorkerId};
use futures_util::StreamExt;

use double::{Double, LONG, Order, Word, next};

#[tokio::test(start_paused = true)]
async fn a_message_queued_on_one_session_is_not_sent_on_the_next() {
    let double = Double::default();
    let (pool, _events, mut lines) = double.up(&["a"]).await;
    pool.try_send("a", Order::new("old")).unwrap();
    pool.insert("a", "elsewhere".to_owned());
    let mut line = double.puppet("elsewhere").line().await;
    pool.ready(["a"], LONG).await.unwrap();
    pool.try_send("a", Order::new("new")).unwrap();
    assert_eq!(line.next_order().await, "new");
    assert_eq!(lines[0].orders.next().await, None);
    assert!(lines[0].killed.is_cancelled());
}

#[tokio::test(start_paused = true)]
async fn an_equal_target_changes_nothing_and_a_different_one_replaces() {
    let double = Double::default();
    let (pool, mut events, lines) = double.up(&["a"]).await;
    pool.insert("a", "a".to_owned());
    assert!(!lines[0].killed.is_cancelled());
    assert_eq!(lines[0].attempt.incarnation, None);
    pool.insert_incarnation("a", "a".to_owned(), 3);
    let line = double.puppet("a").line().await;
    assert_eq!(line.attempt.incarnation, Some(3));
    pool.insert_incarnation("a", "a".to_owned(), 3);
    for told in [
        "a connected",
        "a lost: the worker has another target",
        "a connected",
        "nothing",
    ] {
        assert_eq!(next(&mut events).await, told);
    }
}

#[tokio::test(start_paused = true)]
async fn an_equal_target_keeps_the_session_and_is_used_from_the_next_attempt_on() {
    let double = Double::default();
    let (pool, _events, mut lines) = double.up(&["a"]).await;
    pool.insert("a", "a#new certificate".to_owned());
    pool.try_send("a", Order::new("x")).unwrap();
    assert_eq!(lines[0].next_order().await, "x");
    assert!(!lines[0].killed.is_cancelled());
    lines.clear();
    let line = double.puppet("a#new certificate").line().await;
    assert_eq!(line.attempt.worker.as_str(), "a");
}

#[tokio::test(start_paused = true)]
async fn generations_of_a_worker_rise_over_its_removal() {
    let double = Double::default();
    let (pool, _events) = double.pool();
    let mut last = 0;
    for _ in 0..50 {
        pool.insert("a", "a".to_owned());
        let line = double.puppet("a").line().await;
        assert!(line.attempt.generation > last);
        last = line.attempt.generation;
        assert_eq!(pool.state("a").unwrap().generation, last);
        pool.remove("a");
    }
}

#[tokio::test(start_paused = true)]
async fn the_handshake_names_worker_scope_term_and_one_pool() {
    let double = Double::default();
    let config = bidi_session::PoolConfig::new(4).with_scope("life/meta");
    let (one, _events) = double.pool_with(config.clone());
    let (other, _events) = double.pool_with(config);
    one.insert("a", "a".to_owned());
    one.insert("b", "b".to_owned());
    other.insert("c", "c".to_owned());
    let a = double.puppet("a").line().await.attempt;
    let b = double.puppet("b").line().await.attempt;
    let c = double.puppet("c").line().await.attempt;
    assert_eq!(
        (a.worker.as_str(), a.scope.as_str(), a.term),
        ("a", "life/meta", 4)
    );
    assert_eq!(a.pool, b.pool);
    assert_ne!(a.pool, c.pool);
}

/// Checks `(AttemptFailed* Connected Message* Disconnected)* AttemptFailed* Removed?`.
fn check_grammar(sessions: &mut HashMap<WorkerId, (u64, bool)>, event: &Event<Word>) {
    let entry = sessions.entry(event.worker.clone());
    let (last, is_up) = entry.or_insert((0, false));
    match &event.kind {
        EventKind::Connected { .. } => {
            assert!(!*is_up && event.generation > *last, "{event:?}");
            (*last, *is_up) = (event.generation, true);
        }
        EventKind::Message(word) => {
            assert!(*is_up && event.generation == *last, "{event:?}");
            assert_eq!(word.text, event.generation.to_string());
        }
        EventKind::Disconnected { .. } => {
            assert!(*is_up && event.generation == *last, "{event:?}");
            *is_up = false;
        }
        EventKind::AttemptFailed { .. } | EventKind::Removed => assert!(!*is_up, "{event:?}"),
        kind => panic!("{kind:?}"),
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_grammar_holds_while_threads_insert_replace_and_remove() {
    let double = Double::default();
    let (pool, mut events) = double.pool();
    let chaos = pool.clone();
    let steering = std::thread::spawn(move || {
        let mut random = fastrand::Rng::with_seed(11);
        for step in 0..3_000_u32 {
            let worker = format!("w{}", random.u8(..3));
            match random.u8(..4) {
                0 => drop(chaos.remove(&worker)),
                1 => chaos.insert(&*worker, format!("p{}", random.u8(..4))),
                _ => chaos.insert(&*worker, format!("p{}", step % 7)),
            }
            if random.u8(..8) == 0 {
                std::thread::yield_now();
            }
        }
    });
    let mut speakers = tokio::task::JoinSet::new();
    for target in 0..7 {
        let puppet = double.puppet(&format!("p{target}"));
        speakers.spawn(async move {
            loop {
                let line = puppet.line().await;
                for _ in 0..3 {
                    let word = Word::note(line.attempt.generation);
                    let _ = line.words.send(Ok(word)).await;
                }
            }
        });
    }
    let closing = tokio::spawn(async move {
        tokio::task::spawn_blocking(|| steering.join().unwrap())
            .await
            .unwrap();
        pool.close().await;
    });
    let mut sessions = HashMap::new();
    let mut count = 0;
    while let Some(event) = events.recv().await {
        check_grammar(&mut sessions, &event);
        count += 1;
    }
    closing.await.unwrap();
    assert!(count > 100, "{count} events only");
    assert!(sessions.values().all(|(_, is_up)| !is_up));
}
