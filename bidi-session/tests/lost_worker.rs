//! Workers that are lost, removed or replaced while a barrier waits for them.

mod double;

use std::time::Duration;

use bidi_session::{DisconnectReason, RoundError, WorkerId};

use double::{Double, LONG, Order, Word, failed};

fn order(worker: &WorkerId) -> Order {
    Order::new(worker)
}

#[tokio::test(start_paused = true)]
async fn answers_come_in_the_order_of_the_targets() {
    let (pool, _events, mut lines) = Double::default().up(&["a", "b", "c"]).await;
    let round = pool.inject(9, ["c", "a", "b", "a"], order).unwrap();
    assert_eq!(round.id(), 9);
    for line in &mut lines {
        let text = line.next_order().await;
        assert_eq!(text, line.attempt.worker.as_str());
        line.say(Word::answer(9)).await;
    }
    let answers = round.collect(LONG).await.unwrap();
    let workers: Vec<_> = answers.iter().map(|(worker, _)| worker.as_str()).collect();
    assert_eq!(workers, ["c", "a", "b"]);
}

#[tokio::test(start_paused = true)]
async fn several_rounds_are_in_flight_and_end_in_any_order() {
    let (pool, _events, lines) = Double::default().up(&["a"]).await;
    let first = pool.inject(1, ["a"], order).unwrap();
    let second = pool.inject(2, ["a"], order).unwrap();
    lines[0].say(Word::answer(2)).await;
    assert_eq!(second.collect(LONG).await.unwrap().len(), 1);
    lines[0].say(Word::answer(1)).await;
    assert_eq!(first.collect(LONG).await.unwrap().len(), 1);
}

#[tokio::test(start_paused = true)]
async fn a_round_without_targets_is_complete() {
    let (pool, _events) = Double::default().pool();
    let round = pool.inject(1, [] as [&str; 0], order).unwrap();
    assert_eq!(round.collect(Duration::ZERO).await.unwrap(), []);
}

#[tokio::test(start_paused = true)]
async fn a_loss_fails_the_round_at_once_with_its_reason() {
    let (pool, _events, mut lines) = Double::default().up(&["a", "b"]).await;
    let round = pool.inject(1, ["a", "b"], order).unwrap();
    let start = tokio::time::Instant::now();
    lines.remove(0).fail("connection reset").await;
    let failures = vec![("a".into(), failed("connection reset"))];
    let error = round.collect(LONG).await.unwrap_err();
    assert_eq!(error, RoundError::Failed { failures });
    assert_eq!(
        error.to_string(),
        "workers were lost in the round: a (connection reset)"
    );
    assert_eq!(start.elapsed(), Duration::from_millis(20));
}

#[tokio::test(start_paused = true)]
async fn all_that_fail_within_20_ms_are_named_and_later_ones_are_not() {
    let (pool, _events, mut lines) = Double::default().up(&["a", "b", "c"]).await;
    let round = pool.inject(1, ["a", "b", "c"], order).unwrap();
    lines.remove(0).fail("first").await;
    tokio::time::sleep(Duration::from_millis(20)).await;
    lines.remove(0).fail("second").await;
    tokio::time::sleep(Duration::from_millis(5)).await;
    lines.remove(0).fail("third").await;
    tokio::time::sleep(Duration::from_millis(5)).await;
    let failures = vec![
        ("a".into(), failed("first")),
        ("b".into(), failed("second")),
    ];
    let error = round.collect(LONG).await.unwrap_err();
    assert_eq!(error, RoundError::Failed { failures });
}

#[tokio::test(start_paused = true)]
async fn a_round_of_which_all_failed_ends_without_waiting() {
    let (pool, _events, mut lines) = Double::default().up(&["a"]).await;
    let round = pool.inject(1, ["a"], order).unwrap();
    let start = tokio::time::Instant::now();
    drop(lines.remove(0));
    let failures = vec![("a".into(), DisconnectReason::Closed)];
    let error = round.collect(LONG).await.unwrap_err();
    assert_eq!(error, RoundError::Failed { failures });
    assert_eq!(start.elapsed(), Duration::ZERO);
}

#[tokio::test(start_paused = true)]
async fn removal_fails_the_round_and_kills_the_connection() {
    let (pool, _events, lines) = Double::default().up(&["a"]).await;
    let round = pool.inject(1, ["a"], order).unwrap();
    assert!(pool.remove("a"));
    assert!(lines[0].killed.is_cancelled());
    let failures = vec![("a".into(), DisconnectReason::Removed)];
    let error = round.collect(LONG).await.unwrap_err();
    assert_eq!(error, RoundError::Failed { failures });
    assert!(!pool.remove("a"));
}

#[tokio::test(start_paused = true)]
async fn replacement_fails_the_round() {
    let (pool, _events, _lines) = Double::default().up(&["a"]).await;
    let round = pool.inject(1, ["a"], order).unwrap();
    pool.insert("a", "elsewhere".to_owned());
    let failures = vec![("a".into(), DisconnectReason::Replaced)];
    let error = round.collect(LONG).await.unwrap_err();
    assert_eq!(error, RoundError::Failed { failures });
}

#[tokio::test(start_paused = true)]
async fn a_worker_that_answered_may_be_lost_and_one_without_a_share_too() {
    let (pool, _events, mut lines) = Double::default().up(&["a", "b", "c"]).await;
    let round = pool.inject(1, ["a", "b"], order).unwrap();
    lines[0].say(Word::answer(1)).await;
    lines.remove(0).fail("after its answer").await;
    lines.remove(1).fail("never asked").await;
    lines[0].say(Word::answer(1)).await;
    assert_eq!(round.collect(LONG).await.unwrap().len(), 2);
}

#[tokio::test(start_paused = true)]
async fn who_is_missing_at_the_end_of_the_time_is_named() {
    let (pool, _events, lines) = Double::default().up(&["a", "b", "c"]).await;
    let round = pool.inject(1, ["c", "b", "a"], order).unwrap();
    lines[1].say(Word::answer(1)).await;
    let start = tokio::time::Instant::now();
    let error = round.collect(Duration::from_secs(10)).await.unwrap_err();
    assert_eq!(start.elapsed(), Duration::from_secs(10));
    assert_eq!(error.to_string(), "no answer in time from c, a");
}

#[tokio::test(start_paused = true)]
async fn the_time_may_be_up_while_failures_settle() {
    let (pool, _events, mut lines) = Double::default().up(&["a", "b"]).await;
    let round = pool.inject(1, ["a", "b"], order).unwrap();
    lines.remove(0).fail("cut").await;
    let error = round.collect(Duration::from_millis(5)).await.unwrap_err();
    assert!(matches!(error, RoundError::Failed { failures } if failures.len() == 1));
}
