//! Answers that belong to no round in flight: told apart, counted and dropped.

mod double;

use bidi_session::{Counters, RoundError};

use double::{Double, LONG, Line, Order, Word, failed, next};

fn order(worker: &bidi_session::WorkerId) -> Order {
    Order::new(worker)
}

/// Answers and then says a note, so that the answer was handled when the note comes.
async fn answer(line: &Line, id: u64) {
    line.say(Word::answer(id)).await;
}

fn only(set: impl FnOnce(&mut Counters)) -> Counters {
    let mut counters = Counters::default();
    set(&mut counters);
    counters
}

#[tokio::test(start_paused = true)]
async fn an_answer_to_a_round_that_never_was_is_unknown() {
    let (pool, _events, lines) = Double::default().up(&["a"]).await;
    answer(&lines[0], 7).await;
    let round = pool.inject(3, ["a"], order).unwrap();
    answer(&lines[0], 2).await;
    answer(&lines[0], 4).await;
    assert_eq!(pool.counters(), only(|c| c.unknown = 3));
    drop(round);
}

#[tokio::test(start_paused = true)]
async fn an_answer_after_the_end_is_late() {
    let (pool, _events, lines) = Double::default().up(&["a", "b"]).await;
    let round = pool.inject(1, ["a", "b"], order).unwrap();
    let missing = vec!["a".into(), "b".into()];
    let error = round.collect(LONG).await.unwrap_err();
    assert_eq!(error, RoundError::TimedOut { missing });
    drop(pool.inject(2, ["a"], order).unwrap());
    answer(&lines[0], 1).await;
    answer(&lines[0], 2).await;
    assert_eq!(pool.counters(), only(|c| c.late = 2));
}

#[tokio::test(start_paused = true)]
async fn a_second_answer_is_a_duplicate_in_flight_and_after_completion() {
    let (pool, _events, lines) = Double::default().up(&["a", "b"]).await;
    let round = pool.inject(1, ["a", "b"], order).unwrap();
    answer(&lines[0], 1).await;
    answer(&lines[0], 1).await;
    answer(&lines[1], 1).await;
    answer(&lines[1], 1).await;
    assert_eq!(round.collect(LONG).await.unwrap().len(), 2);
    answer(&lines[1], 1).await;
    assert_eq!(pool.counters(), only(|c| c.duplicate = 3));
}

#[tokio::test(start_paused = true)]
async fn an_answer_of_a_worker_that_was_not_asked_is_told() {
    let (pool, _events, lines) = Double::default().up(&["a", "b"]).await;
    let round = pool.inject(1, ["a"], order).unwrap();
    answer(&lines[1], 1).await;
    answer(&lines[0], 1).await;
    assert_eq!(round.collect(LONG).await.unwrap().len(), 1);
    answer(&lines[1], 1).await;
    assert_eq!(pool.counters(), only(|c| c.not_a_target = 2));
}

#[tokio::test(start_paused = true)]
async fn an_answer_on_a_newer_session_does_not_count() {
    let double = Double::default();
    let (pool, mut events, mut lines) = double.up(&["a"]).await;
    let round = pool.inject(1, ["a"], order).unwrap();
    lines.remove(0).fail("cut").await;
    let line = double.puppet("a").line().await;
    answer(&line, 1).await;
    let failures = vec![("a".into(), failed("cut"))];
    let error = round.collect(LONG).await.unwrap_err();
    assert_eq!(error, RoundError::Failed { failures });
    answer(&line, 1).await;
    assert_eq!(pool.counters(), only(|c| c.older_generation = 2));
    // Strays are no events either.
    assert_eq!(next(&mut events).await, "a connected");
    assert_eq!(next(&mut events).await, "a lost: cut");
    assert_eq!(next(&mut events).await, "a connected");
    assert_eq!(next(&mut events).await, "nothing");
}

#[tokio::test(start_paused = true)]
async fn a_late_answer_is_never_taken_for_a_repetition() {
    let (pool, _events, lines) = Double::default().up(&["a"]).await;
    drop(pool.inject(1, ["a"], order).unwrap());
    let again = pool.inject(1, ["a"], order).unwrap_err();
    assert_eq!(
        again.to_string(),
        "the round's id is not above 1, the last one"
    );
    let round = pool.inject(2, ["a"], order).unwrap();
    answer(&lines[0], 1).await;
    answer(&lines[0], 2).await;
    let answers = round.collect(LONG).await.unwrap();
    assert_eq!(answers, [("a".into(), Word::answer(2))]);
    assert_eq!(pool.counters(), only(|c| c.late = 1));
}
