//! Pools that are closed, or just dropped.

mod double;

use std::sync::atomic::Ordering;

use bidi_session::{InjectError, RoundError};
use futures_util::StreamExt;

use double::{Act, Double, LONG, Order, next};

#[tokio::test(start_paused = true)]
async fn the_last_drop_ends_sessions_rounds_and_events() {
    let double = Double::default();
    let (pool, mut events, mut lines) = double.up(&["a"]).await;
    double.puppet("b").set(Act::Hang);
    pool.insert("b", "b".to_owned());
    let waiting = pool.inject(1, ["a"], |_| Order::new("barrier")).unwrap();
    let waiting = tokio::spawn(waiting.collect(LONG));
    let other = pool.clone();
    drop(pool);
    tokio::task::yield_now().await;
    assert!(!lines[0].killed.is_cancelled());
    let start = tokio::time::Instant::now();
    drop(other);
    assert!(lines[0].killed.is_cancelled());
    assert_eq!(lines[0].orders.next().await, None);
    assert_eq!(waiting.await.unwrap(), Err(RoundError::Closed));
    let mut told = vec![next(&mut events).await];
    while told.last().unwrap() != "end" {
        told.push(next(&mut events).await);
    }
    assert_eq!(told[..2], ["a connected", "a lost: the pool was closed"]);
    assert!(told.contains(&"b removed".to_owned()), "{told:?}");
    assert_eq!(double.dialing.load(Ordering::SeqCst), 0);
    assert_eq!(start.elapsed().as_secs(), 0);
}

#[tokio::test(start_paused = true)]
async fn a_round_does_not_keep_its_pool_alive() {
    let (pool, _events, lines) = Double::default().up(&["a"]).await;
    let round = pool.inject(1, ["a"], |_| Order::new("barrier")).unwrap();
    drop(pool);
    assert!(lines[0].killed.is_cancelled());
    assert_eq!(round.collect(LONG).await, Err(RoundError::Closed));
}

#[tokio::test(start_paused = true)]
async fn complete_answers_outlive_the_pool() {
    let (pool, _events, lines) = Double::default().up(&["a"]).await;
    let round = pool.inject(1, ["a"], |_| Order::new("barrier")).unwrap();
    lines[0].say(double::Word::answer(1)).await;
    pool.close().await;
    assert_eq!(round.collect(LONG).await.unwrap().len(), 1);
}

#[tokio::test(start_paused = true)]
async fn a_closed_pool_does_nothing_more() {
    let double = Double::default();
    let (pool, mut events, _lines) = double.up(&["a"]).await;
    pool.close().await;
    pool.close().await;
    pool.insert("b", "b".to_owned());
    assert_eq!(pool.state("b"), None);
    assert!(!pool.remove("a"));
    let error = pool.inject(1, ["a"], |_| unreachable!()).unwrap_err();
    assert_eq!(error, InjectError::Closed);
    tokio::time::sleep(LONG).await;
    assert_eq!(double.puppet("b").attempts(), 0);
    while next(&mut events).await != "end" {}
    assert_eq!(events.recv().await, None);
}

#[tokio::test(start_paused = true)]
async fn tasks_end_with_their_worker() {
    let double = Double::default();
    let (pool, _events) = double.pool();
    let tasks = || {
        tokio::runtime::Handle::current()
            .metrics()
            .num_alive_tasks()
    };
    let before = tasks();
    for number in 0..1000 {
        pool.insert(number, format!("t{}", number % 3));
        if number % 2 == 0 {
            tokio::task::yield_now().await;
        }
        pool.remove(number.to_string());
    }
    for _ in 0..10 {
        tokio::task::yield_now().await;
    }
    assert_eq!(tasks(), before);
}

#[test]
fn a_pool_may_outlive_its_runtime() {
    let runtime = tokio::runtime::Builder::new_current_thread();
    let runtime = { runtime }.enable_all().build().unwrap();
    let double = Double::default();
    let (pool, mut events, lines) = runtime.block_on(double.up(&["a"]));
    drop(runtime);
    pool.insert("b", "b".to_owned());
    pool.remove("a");
    assert!(lines[0].killed.is_cancelled());
    drop(pool);
    while events.try_recv().is_some() {}
}
