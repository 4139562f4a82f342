//! Sessions of which one half is gone.

mod double;

use std::time::Duration;

use bidi_session::{RoundError, SendErrorKind};

use double::{Double, LONG, Line, Order, Word, next};

/// Drops the worker's request stream and nothing else.
fn deafen(line: Line) -> tokio::sync::mpsc::Sender<Result<Word, bidi_session::Failure>> {
    line.words.clone()
}

#[tokio::test(start_paused = true)]
async fn a_session_whose_request_stream_is_gone_ends_after_a_second() {
    let double = Double::default();
    let (pool, mut events, mut lines) = double.up(&["a"]).await;
    assert_eq!(next(&mut events).await, "a connected");
    let round = pool.inject(1, ["a"], |_| Order::new("barrier")).unwrap();
    let words = deafen(lines.remove(0));
    let start = tokio::time::Instant::now();
    let error = pool.try_send("a", Order::new(1)).unwrap_err();
    assert_eq!(error.kind, SendErrorKind::NotConnected);
    tokio::time::sleep(Duration::from_millis(900)).await;
    words.send(Ok(Word::note("last words"))).await.unwrap();
    assert_eq!(next(&mut events).await, "a said last words");
    let told = "a lost: the worker no longer takes messages";
    assert_eq!(next(&mut events).await, told);
    assert_eq!(start.elapsed(), Duration::from_secs(1));
    assert!(matches!(
        round.collect(LONG).await,
        Err(RoundError::Failed { .. })
    ));
    assert_eq!(next(&mut events).await, "a connected");
}

#[tokio::test(start_paused = true)]
async fn a_round_injected_into_half_a_session_reaches_nobody() {
    let double = Double::default();
    let (pool, _events, mut lines) = double.up(&["a", "b"]).await;
    let _words = deafen(lines.remove(0));
    let error = pool
        .inject(1, ["a", "b"], |_| Order::new("barrier"))
        .unwrap_err();
    assert_eq!(error.to_string(), "nothing was injected: a (no session)");
}

#[tokio::test(start_paused = true)]
async fn the_reason_of_a_worker_that_hangs_up_wins_over_its_dropped_request_stream() {
    let double = Double::default();
    let (_pool, mut events, mut lines) = double.up(&["a"]).await;
    let words = deafen(lines.remove(0));
    tokio::task::yield_now().await;
    words
        .send(Err(bidi_session::Failure::new("shutting down")))
        .await
        .unwrap();
    assert_eq!(next(&mut events).await, "a connected");
    assert_eq!(next(&mut events).await, "a lost: shutting down");
}
