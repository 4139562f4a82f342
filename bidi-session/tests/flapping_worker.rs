//! Workers that accept and hang up, or come and go.

mod double;

use std::sync::{Arc, OnceLock};
use std::time::Duration;

use bidi_session::{BackoffPolicy, OpenClass, Phase, Pool, PoolConfig};

use double::{Act, Double, LONG, Word};

#[tokio::test(start_paused = true)]
async fn a_peer_that_accepts_and_hangs_up_is_not_dialed_in_a_hot_loop() {
    let double = Double::default();
    let (pool, _events) = double.pool();
    pool.insert("a", "a".to_owned());
    let deadline = tokio::time::Instant::now() + Duration::from_secs(30);
    let puppet = double.puppet("a");
    while let Ok(line) = tokio::time::timeout_at(deadline, puppet.line()).await {
        drop(line);
    }
    let attempts = puppet.attempts();
    assert!((7..=18).contains(&attempts), "{attempts} attempts in 30 s");
}

#[tokio::test(start_paused = true)]
async fn a_peer_that_speaks_and_hangs_up_is_not_dialed_in_a_hot_loop() {
    let double = Double::default();
    let (pool, mut events) = double.pool();
    pool.insert("a", "a".to_owned());
    let deadline = tokio::time::Instant::now() + Duration::from_secs(30);
    let puppet = double.puppet("a");
    while let Ok(line) = tokio::time::timeout_at(deadline, puppet.line()).await {
        line.say(Word::note("hello")).await;
        drop(line);
        while events.try_recv().is_some() {}
    }
    let attempts = puppet.attempts();
    assert!((8..=19).contains(&attempts), "{attempts} attempts in 30 s");
}

#[tokio::test(start_paused = true)]
async fn after_a_healthy_session_the_next_attempt_comes_at_once() {
    let double = Double::default();
    let (_pool, _events, lines) = double.up(&["a"]).await;
    tokio::time::sleep(Duration::from_secs(5)).await;
    let start = tokio::time::Instant::now();
    drop(lines);
    let _line = double.puppet("a").line().await;
    assert_eq!(start.elapsed(), Duration::ZERO);
}

#[tokio::test(start_paused = true)]
async fn a_worker_that_comes_up_late_is_found_within_the_cap() {
    let double = Double::default();
    let (pool, _events) = double.pool();
    let puppet = double.puppet("a");
    puppet.set(Act::Fail(OpenClass::Unreachable));
    pool.insert("a", "a".to_owned());
    tokio::time::sleep(Duration::from_secs(600)).await;
    let state = pool.state("a").unwrap();
    assert_eq!(state.phase, Phase::Waiting);
    assert_eq!(
        state.elapsed,
        Duration::from_secs(600),
        "not since the last attempt"
    );
    assert!(state.retry_in.unwrap() <= Duration::from_secs(5));
    assert_eq!(state.attempts, puppet.attempts());
    puppet.set(Act::Accept);
    pool.ready(["a"], Duration::from_secs(5)).await.unwrap();
    let state = pool.state("a").unwrap();
    assert_eq!(state.session(), Some(state.generation));
}

#[tokio::test(start_paused = true)]
async fn a_refused_worker_is_tried_again_after_10_s_for_ever() {
    let double = Double::default();
    let (pool, _events) = double.pool();
    let puppet = double.puppet("a");
    puppet.set(Act::Fail(OpenClass::Refused));
    pool.insert("a", "a".to_owned());
    tokio::time::sleep(Duration::from_secs(1005)).await;
    assert_eq!(puppet.attempts(), 101);
    assert_eq!(pool.state("a").unwrap().phase, Phase::Blocked);
}

#[tokio::test(start_paused = true)]
async fn not_ready_says_who_since_when_and_why() {
    let double = Double::default();
    let (pool, _events, _lines) = double.up(&["up"]).await;
    double.puppet("a").set(Act::Fail(OpenClass::Refused));
    pool.insert("a", "a".to_owned());
    let start = tokio::time::Instant::now();
    let error = pool.ready(["up", "a"], Duration::from_secs(4)).await;
    let error = error.unwrap_err();
    assert_eq!(start.elapsed(), Duration::from_secs(4));
    assert_eq!(
        error.to_string(),
        "not ready: a (refused for 4.0 s, 1 failed attempts, last: the puppet refuses)"
    );
    assert_eq!(error.missing.len(), 1);
    assert!(!error.is_closed);
}

#[tokio::test(start_paused = true)]
async fn ready_answers_at_once_where_waiting_is_in_vain() {
    let double = Double::default();
    let (pool, _events) = double.pool();
    double.puppet("a").set(Act::Hang);
    pool.insert("a", "a".to_owned());
    let start = tokio::time::Instant::now();
    let error = pool.ready(["a", "who"], LONG).await.unwrap_err();
    assert!(
        error.to_string().contains("who (unknown worker)"),
        "{error}"
    );
    double.puppet("b").set(Act::Hang);
    pool.insert("b", "b".to_owned());
    let (removed, ()) = tokio::join!(pool.ready(["a", "b"], LONG), async {
        pool.remove("b");
    });
    assert_eq!(removed.unwrap_err().missing[1], ("b".into(), None));
    let (closed, ()) = tokio::join!(pool.ready(["a"], LONG), pool.close());
    assert_eq!(closed.unwrap_err().to_string(), "the pool is closed");
    assert_eq!(start.elapsed(), Duration::ZERO);
}

#[tokio::test(start_paused = true)]
async fn ready_returns_at_the_moment_the_last_one_is_up() {
    let double = Double::default();
    let (pool, _events, _lines) = double.up(&["a"]).await;
    let start = tokio::time::Instant::now();
    pool.insert("b", "b".to_owned());
    pool.ready(["a", "b"], LONG).await.unwrap();
    assert_eq!(start.elapsed(), Duration::ZERO);
}

#[tokio::test(start_paused = true)]
async fn ready_wants_all_at_once_and_not_one_after_the_other() {
    let double = Double::default();
    let (pool, _events, lines) = double.up(&["a"]).await;
    double.puppet("b").set(Act::Hang);
    pool.insert("b", "b".to_owned());
    let ready = pool.ready(["b", "a"], Duration::from_secs(60));
    let changes = async {
        tokio::time::sleep(Duration::from_secs(20)).await;
        double.puppet("a").set(Act::Hang);
        drop(lines);
        double.puppet("b").set(Act::Accept);
    };
    let (ready, ()) = tokio::join!(ready, changes);
    let missing: Vec<_> = ready.unwrap_err().missing;
    assert_eq!(missing.len(), 1);
    assert_eq!(missing[0].0, "a".into());
}

#[test]
#[should_panic(expected = "invalid settings of a pool: term is zero")]
fn a_term_of_zero_is_refused() {
    let _ = Double::default().pool_with(PoolConfig::new(0));
}

#[test]
fn settings_out_of_range_are_named() {
    let config = PoolConfig::default();
    config.validate().unwrap();
    let text = |config: PoolConfig| config.validate().unwrap_err().to_string();
    let scope = config.clone().with_scope("x".repeat(129));
    assert_eq!(text(scope), "the scope has 129 bytes, more than 128");
    assert_eq!(text(config.clone().with_outbox(0, 1)), "outbox_len is zero");
    assert_eq!(
        text(config.clone().with_outbox(1, 0)),
        "outbox_bytes is zero"
    );
    assert_eq!(text(config.with_inbox(0)), "inbox_len is zero");
}

#[tokio::test(start_paused = true)]
async fn a_policy_of_the_owner_s_sets_the_delays() {
    let double = Double::default();
    let own = Arc::new(OnceLock::<Pool<Double>>::new());
    let asked = own.clone();
    let policy = BackoffPolicy::new(move |failures| {
        // The pool may be asked, whoever runs this.
        let state = asked.get().unwrap().state("a").unwrap();
        assert_ne!(failures, 2, "the test asked for it");
        Duration::from_secs(60) * (state.attempts + 1)
    });
    let (pool, _events) = double.pool_with(PoolConfig::new(1).with_backoff_policy(policy));
    own.set(pool.clone()).unwrap();
    let puppet = double.puppet("a");
    puppet.set(Act::Fail(OpenClass::Unreachable));
    pool.insert("a", "a".to_owned());
    // At 0, 60 and 180 s, after a panic by default within 400 ms, and 240 s later.
    for (seconds, attempts) in [(59, 1), (2, 2), (120, 4), (239, 4), (2, 5)] {
        tokio::time::sleep(Duration::from_secs(seconds)).await;
        assert_eq!(puppet.attempts(), attempts, "{seconds} s later");
    }
}
