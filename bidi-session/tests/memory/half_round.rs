//! Rounds that reach only some of their workers or mix their answers, and waits for
//! workers that end too late.

use bidi_session::Direction;
use bidi_session::memory::{Acceptor, Network};
use bidi_session::{InjectError, Pool, PoolConfig, RoundError, SendErrorKind, WorkerId};
use futures_util::FutureExt;
use tokio::time::Instant;

use crate::rig::{
    Connect, LONG, Word, WorkerSession, barrier, connect, millis, note, pool, serve_echo, told, up,
};

fn names(count: usize) -> Vec<String> {
    (0..count).map(|number| format!("w{number}")).collect()
}

/// A pool with workers that tell what they hear.
async fn hundred() -> (Network, Pool<Connect>, tokio::sync::mpsc::Receiver<Word>) {
    let network = Network::new(1);
    let (tell, told) = tokio::sync::mpsc::channel(1024);
    for name in names(100) {
        let tell = tell.clone();
        let acceptor = Acceptor::new(name.as_str(), 1, 0);
        network.serve(name, acceptor, move |mut session: WorkerSession| {
            let tell = tell.clone();
            async move {
                while let Some(word) = session.recv().await {
                    tell.send(word).await.unwrap();
                    let _ = session.send(word).await;
                }
            }
        });
    }
    let (pool, events) = Pool::new(connect(&network), PoolConfig::new(1));
    drop(events);
    for name in names(100) {
        pool.insert(name.as_str(), name.clone());
    }
    pool.ready(names(100), LONG).await.unwrap();
    (network, pool, told)
}

#[tokio::test(start_paused = true)]
async fn one_of_a_hundred_that_is_full_or_absent_keeps_the_round_from_all() {
    let (network, pool, mut heard) = hundred().await;
    network.stall("w42", Direction::ToWorker);
    for tag in 0..256 {
        pool.try_send("w42", note(tag)).unwrap();
    }
    let refused = vec![("w42".into(), SendErrorKind::Full)];
    let error = pool.inject(1, names(100), |_| barrier(1)).unwrap_err();
    assert_eq!(error, InjectError::NotQueued { refused });
    let refused = vec![("w100".into(), SendErrorKind::Unknown)];
    let asked: Vec<_> = names(101)
        .into_iter()
        .filter(|name| name != "w42")
        .collect();
    let error = pool.inject(1, asked, |_| barrier(1)).unwrap_err();
    assert_eq!(error, InjectError::NotQueued { refused });
    network.kill("w7");
    tokio::time::sleep(millis(10)).await;
    let error = pool.inject(1, names(42), |_| barrier(1)).unwrap_err();
    let refused = vec![("w7".into(), SendErrorKind::NotConnected)];
    assert_eq!(error, InjectError::NotQueued { refused });
    tokio::time::sleep(millis(1_000)).await;
    assert!(heard.try_recv().is_err(), "somebody heard of it");
    assert!(network.counts("w42").reads_held > 0);
}

#[tokio::test(start_paused = true)]
async fn ten_rounds_in_flight_take_their_own_answers_in_any_order() {
    let network = Network::new(1);
    for name in names(20) {
        let acceptor = Acceptor::new(name.as_str(), 1, 0);
        let seed = name.len() as u64 + name.bytes().map(u64::from).sum::<u64>();
        network.serve(
            name,
            acceptor,
            move |mut session: WorkerSession| async move {
                let mut random = fastrand::Rng::with_seed(seed);
                let mut held = Vec::new();
                while held.len() < 10
                    && let Some(word) = session.recv().await
                {
                    held.push(word);
                }
                random.shuffle(&mut held);
                for word in held {
                    session.send(word).await.unwrap();
                    // Once more, and one of a round that never was.
                    session.send(word).await.unwrap();
                    session.send(barrier(1_000 + word.tag)).await.unwrap();
                }
                let _ = session.recv().await;
            },
        );
    }
    let (pool, _events) = pool(&network, 1);
    for name in names(20) {
        pool.insert(name.as_str(), name.clone());
    }
    pool.ready(names(20), LONG).await.unwrap();
    let rounds: Vec<_> = (1..=10)
        .map(|id| pool.inject(id, names(20), |_| barrier(id)).unwrap())
        .collect();
    for round in rounds.into_iter().rev() {
        let id = round.id();
        let answers = round.collect(LONG).await.unwrap();
        let expected = names(20).into_iter().map(|name| (name.into(), barrier(id)));
        assert_eq!(answers, expected.collect::<Vec<(WorkerId, Word)>>());
    }
    tokio::time::sleep(millis(1)).await;
    let counters = pool.counters();
    assert_eq!((counters.duplicate, counters.unknown), (200, 200));
    assert_eq!((counters.late, counters.not_a_target), (0, 0));
}

#[tokio::test(start_paused = true)]
async fn a_death_fails_the_rounds_that_wait_for_it_and_no_other() {
    let (network, pool, _events) = up(&["a", "b", "c"]).await;
    network.stall("a", Direction::FromWorker);
    network.stall("b", Direction::FromWorker);
    let inject = |id: u64, asked: &[&str]| pool.inject(id, asked, |_| barrier(id)).unwrap();
    let waits = [
        inject(1, &["a", "b"]),
        inject(2, &["a"]),
        inject(3, &["a", "c"]),
    ];
    let others = [inject(4, &["b"]), inject(5, &["c"]), inject(6, &["b", "c"])];
    tokio::time::sleep(millis(10)).await;
    let start = Instant::now();
    network.kill("a");
    for round in waits {
        let error = round.collect(LONG).await.unwrap_err();
        let RoundError::Failed { failures } = error else {
            panic!("{error}");
        };
        assert_eq!(failures.len(), 1);
        assert_eq!(failures[0].0, WorkerId::from("a"));
    }
    assert!(start.elapsed() <= millis(25), "{:?}", start.elapsed());
    network.heal("b");
    for round in others {
        round.collect(LONG).await.unwrap();
    }
    assert_eq!(network.counts("a").kills, 1);
}

#[tokio::test(start_paused = true)]
async fn ready_returns_at_once_or_in_the_moment_a_worker_is_up_or_after_its_time() {
    let (network, pool, mut events) = up(&["a"]).await;
    assert_eq!(told(&mut events).await, "a connected");
    let in_the_first_poll = pool.ready(["a"], millis(2_000)).now_or_never();
    assert_eq!(in_the_first_poll, Some(Ok(())));
    network.hang("late");
    serve_echo(&network, "late", 1);
    pool.insert("late", "late".to_owned());
    let start = Instant::now();
    let missing = pool.ready(["a", "late"], millis(2_000)).await.unwrap_err();
    assert_eq!(start.elapsed(), millis(2_000));
    assert_eq!(missing.missing.len(), 1);
    let text = missing.to_string();
    assert_eq!(text, "not ready: late (connecting for 2.0 s)");
    let network = network.clone();
    let heal = tokio::spawn(async move {
        tokio::time::sleep(millis(1_500)).await;
        network.heal("late");
        Instant::now()
    });
    pool.ready(["late"], millis(2_000)).await.unwrap();
    assert_eq!(Instant::now(), heal.await.unwrap());
}
