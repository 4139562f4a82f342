//! Attempts that never end by themselves.

mod double;

use std::sync::atomic::Ordering;
use std::time::Duration;

use bidi_session::{DialLimit, OpenClass, Phase, PoolConfig};

use double::{Act, Double, LONG, next};

#[tokio::test(start_paused = true)]
async fn an_attempt_ends_after_10_s_and_is_made_again() {
    let double = Double::default();
    let (pool, mut events) = double.pool();
    double.puppet("a").set(Act::Hang);
    pool.insert("a", "a".to_owned());
    let start = tokio::time::Instant::now();
    assert_eq!(next(&mut events).await, "a failed");
    assert_eq!(start.elapsed(), Duration::from_secs(10));
    let state = pool.state("a").unwrap();
    assert_eq!(&*state.last_error.unwrap(), "a: no session within 10 s");
    double.puppet("a").set(Act::Accept);
    assert_eq!(next(&mut events).await, "a connected");
}

#[tokio::test(start_paused = true)]
async fn at_most_64_attempts_run_at_one_time() {
    let double = Double::default();
    let (pool, _events) = double.pool();
    for number in 0..200 {
        let worker = format!("w{number}");
        double.puppet(&worker).set(Act::Hang);
        pool.insert(&*worker, worker.clone());
    }
    tokio::time::sleep(Duration::from_secs(25)).await;
    assert_eq!(double.most_dialing.load(Ordering::SeqCst), 64);
    let attempts = (0..200).map(|number| double.puppet(&format!("w{number}")).attempts());
    assert_eq!(attempts.sum::<u32>(), 3 * 64);
}

#[tokio::test(start_paused = true)]
async fn a_dial_limit_is_shared_between_pools() {
    let double = Double::default();
    let limit = DialLimit::new(2);
    let config = || PoolConfig::new(1).with_dial_limit(limit.clone());
    let pools = [double.pool_with(config()), double.pool_with(config())];
    for worker in ["a", "b"] {
        double.puppet(worker).set(Act::Hang);
        pools
            .iter()
            .for_each(|(pool, _)| pool.insert(worker, worker.to_owned()));
    }
    tokio::time::sleep(Duration::from_secs(60)).await;
    assert_eq!(double.most_dialing.load(Ordering::SeqCst), 2);
}

#[tokio::test(start_paused = true)]
async fn a_session_does_not_count_as_an_attempt() {
    let double = Double::default();
    let config = PoolConfig::new(1).with_dial_limit(DialLimit::new(1));
    let (pool, _events) = double.pool_with(config);
    for worker in ["a", "b", "c"] {
        pool.insert(worker, worker.to_owned());
    }
    pool.ready(["a", "b", "c"], LONG).await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn removal_and_replacement_end_an_attempt_at_once() {
    let double = Double::default();
    let (pool, mut events) = double.pool();
    double.puppet("a").set(Act::Hang);
    let start = tokio::time::Instant::now();
    pool.insert("a", "a".to_owned());
    while double.dialing.load(Ordering::SeqCst) == 0 {
        tokio::task::yield_now().await;
    }
    assert_eq!(pool.state("a").unwrap().phase, Phase::Connecting);
    pool.insert("a", "elsewhere".to_owned());
    assert_eq!(next(&mut events).await, "a connected");
    assert!(start.elapsed() <= Duration::from_millis(100));
    assert_eq!(double.dialing.load(Ordering::SeqCst), 0);
    pool.insert("b", "a".to_owned());
    while double.dialing.load(Ordering::SeqCst) == 0 {
        tokio::task::yield_now().await;
    }
    pool.remove("b");
    assert_eq!(next(&mut events).await, "b removed");
    assert_eq!(next(&mut events).await, "nothing");
    assert_eq!(double.dialing.load(Ordering::SeqCst), 0);
}

#[tokio::test(start_paused = true)]
async fn a_panic_of_the_connector_fails_the_attempt_or_the_session_only() {
    let double = Double::default();
    let (pool, mut events) = double.pool();
    double.puppet("a").set(Act::Panic);
    pool.insert("a", "a".to_owned());
    assert_eq!(next(&mut events).await, "a failed");
    double.puppet("a").set(Act::Accept);
    assert_eq!(next(&mut events).await, "a connected");
    let line = double.puppet("a").line().await;
    let mut poison = double::Word::note("poison");
    poison.answers = Some(1);
    line.words.send(Ok(poison)).await.unwrap();
    assert_eq!(next(&mut events).await, "a lost: the connector panicked");
    assert!(line.killed.is_cancelled());
    assert_eq!(next(&mut events).await, "a connected");
}

#[tokio::test(start_paused = true)]
async fn insert_does_no_work_of_the_connector() {
    let double = Double::default();
    let (pool, _events) = double.pool();
    double.puppet("a").set(Act::Fail(OpenClass::Unreachable));
    pool.insert("a", "a".to_owned());
    pool.insert("a", "a".to_owned());
    assert_eq!(double.puppet("a").attempts(), 0);
    assert!(pool.ready(["a"], Duration::ZERO).await.is_err());
    let _ = pool.ready(["a"], LONG / 3600).await;
    assert!(double.puppet("a").attempts() > 1);
}
