//! Rounds that race the end of sessions: each must end by itself.

mod double;

use std::time::Duration;

use bidi_session::{DisconnectReason, PoolConfig, RoundError, WorkerId};
use futures_util::StreamExt;

use double::{Double, LONG, Order, Word};

/// Answers some orders and hangs up at others.
async fn moody(double: Double, name: &'static str) {
    let mut random = fastrand::Rng::with_seed(name.len() as u64);
    loop {
        let mut line = double.puppet(name).line().await;
        while let Some(order) = line.orders.next().await {
            if random.u8(..4) == 0 {
                break;
            }
            let id = order
                .text
                .parse()
                .expect("the text of an order is its round");
            let _ = line.words.send(Ok(Word::answer(id))).await;
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_round_never_waits_for_a_session_that_is_over() {
    let double = Double::default();
    // Sessions end all the time, and the test is not about the wait for the next.
    let config =
        PoolConfig::new(1).with_backoff(Duration::from_millis(1), Duration::from_millis(5));
    let (pool, events) = double.pool_with(config);
    drop(events);
    let names = ["a", "bb", "ccc"];
    let mut workers = tokio::task::JoinSet::new();
    for name in names {
        workers.spawn(moody(double.clone(), name));
        pool.insert(name, name.to_owned());
    }
    let removing = pool.clone();
    workers.spawn(async move {
        loop {
            tokio::time::sleep(Duration::from_millis(7)).await;
            removing.remove("bb");
            removing.insert("bb", "bb".to_owned());
        }
    });
    let (mut complete, mut failed) = (0, 0);
    for id in 1..100 {
        let round = loop {
            let _ = pool.ready(names, LONG).await;
            if let Ok(round) = pool.inject(id, names, |_| Order::new(id)) {
                break round;
            }
        };
        match round.collect(Duration::from_secs(20)).await {
            Ok(answers) => complete += usize::from(answers.len() == 3),
            Err(RoundError::Failed { .. }) => failed += 1,
            Err(error) => panic!("round {id}: {error}"),
        }
    }
    assert!(
        complete > 0 && failed > 0,
        "{complete} complete, {failed} failed"
    );
}

#[tokio::test(start_paused = true)]
async fn a_session_that_ends_in_the_middle_of_an_injection_fails_the_round() {
    let double = Double::default();
    let (pool, _events, _lines) = double.up(&["a", "b"]).await;
    let removing = pool.clone();
    // Room for `a` is reserved by the time that the size of `b`'s order is asked for.
    *double.hook.lock().unwrap() = Some(Box::new(move || assert!(removing.remove("a"))));
    let make = |worker: &WorkerId| Order::new(if worker.as_str() == "a" { "" } else { "hook" });
    let round = pool.inject(1, ["a", "b"], make).unwrap();
    let failures = vec![("a".into(), DisconnectReason::Removed)];
    let error = round.collect(LONG).await.unwrap_err();
    assert_eq!(error, RoundError::Failed { failures });
}
