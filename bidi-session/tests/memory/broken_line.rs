//! Each fault of the network: that it strikes, what it does, and that it heals.

use std::sync::Arc;
use std::time::Duration;

use bidi_session::Direction;
use bidi_session::memory::{Acceptor, Network};
use bidi_session::{Phase, Pool, PoolConfig, RoundError, SendErrorKind};
use tokio::sync::{Notify, mpsc};
use tokio::time::Instant;

use crate::rig::{
    LONG, WorkerSession, barrier, echo, millis, note, pool, serve_echo, tasks, told, up,
};

#[tokio::test(start_paused = true)]
async fn nobody_at_an_address_refuses_a_dial_and_a_worker_that_comes_is_found() {
    let network = Network::new(1);
    let (pool, mut events) = pool(&network, 1);
    pool.insert("a", "a".to_owned());
    assert_eq!(told(&mut events).await, "a failed: a: connection refused");
    tokio::time::sleep(Duration::from_secs(60)).await;
    let refused = network.counts("a").dials_refused;
    assert!(refused > 10, "{refused}");
    serve_echo(&network, "a", 1);
    // One step of the backoff.
    pool.ready(["a"], millis(5100)).await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn refused_and_hanging_dials_leave_sessions_alone() {
    let (network, pool, mut events) = up(&["a"]).await;
    assert_eq!(told(&mut events).await, "a connected");
    for fault in [Network::refuse, Network::hang] {
        fault(&network, "a");
        let round = network.total().dials;
        let round = pool.inject(round, ["a"], |_| barrier(round)).unwrap();
        round.collect(LONG).await.unwrap();
        network.reset("a");
        assert_eq!(told(&mut events).await, "a lost: the connection was reset");
        let failed = told(&mut events).await;
        assert!(failed.starts_with("a failed: a: "), "{failed}");
        network.heal("a");
        pool.ready(["a"], LONG).await.unwrap();
        while told(&mut events).await != "a connected" {}
    }
    let counts = network.counts("a");
    assert_eq!(counts.resets, 2);
    assert!(
        counts.dials_refused > 0 && counts.dials_held > 0,
        "{counts:?}"
    );
}

#[tokio::test(start_paused = true)]
async fn a_cut_is_found_by_both_ends_within_ten_seconds() {
    for directions in [
        &[Direction::ToWorker, Direction::FromWorker][..],
        &[Direction::ToWorker],
        &[Direction::FromWorker],
    ] {
        let network = Network::new(1);
        let (over, mut ended) = mpsc::channel(4);
        network.serve(
            "a",
            Acceptor::new("a", 1, 0),
            move |mut session: WorkerSession| {
                let over = over.clone();
                async move {
                    while session.recv().await.is_some() {}
                    over.try_send(Instant::now()).unwrap();
                }
            },
        );
        let (pool, mut events) = pool(&network, 1);
        pool.insert("a", "a".to_owned());
        assert_eq!(told(&mut events).await, "a connected");
        tokio::time::sleep(millis(7300)).await;
        let start = Instant::now();
        for direction in directions {
            network.cut_one_way("a", *direction);
        }
        pool.try_send("a", note(1)).unwrap();
        let lost = told(&mut events).await;
        let pool_took = start.elapsed();
        let worker_took = ended.recv().await.unwrap() - start;
        assert!(
            lost.contains("keepalive") || lost.contains("gone"),
            "{lost}"
        );
        for took in [pool_took, worker_took] {
            assert!(took > millis(5000) && took <= millis(10_000), "{took:?}");
        }
        assert!(network.counts("a").silent_ends > 0);
        // It hangs until the cut is healed, or its time is up and the next one begins.
        let heals = told(&mut events).await;
        assert!(heals.contains("no session within 10 s"), "{heals}");
        network.heal("a");
        pool.ready(["a"], millis(5100)).await.unwrap();
    }
}

#[tokio::test(start_paused = true)]
async fn a_cut_that_heals_in_time_loses_nothing() {
    let (network, pool, mut events) = up(&["a"]).await;
    assert_eq!(told(&mut events).await, "a connected");
    for _ in 0..10 {
        network.cut("a");
        for tag in 0..100 {
            pool.try_send("a", note(tag)).unwrap();
        }
        tokio::time::sleep(millis(4900)).await;
        network.heal("a");
        for tag in 0..100 {
            assert_eq!(told(&mut events).await, format!("a said {tag}"));
        }
    }
    let counts = network.counts("a");
    assert_eq!((counts.silent_ends, counts.messages_lost), (0, 0));
    assert!(counts.reads_held >= 10, "{counts:?}");
}

#[tokio::test(start_paused = true)]
async fn a_worker_killed_behind_a_cut_is_found_by_silence_only() {
    let (network, pool, mut events) = up(&["a"]).await;
    assert_eq!(told(&mut events).await, "a connected");
    network.cut("a");
    assert!(network.kill("a") && !network.kill("a"));
    tokio::time::sleep(millis(4900)).await;
    assert_eq!(pool.state("a").unwrap().phase, Phase::Up);
    let lost = told(&mut events).await;
    assert_eq!(lost, "a lost: keepalive: nothing heard for 10 s");
    assert_eq!(
        (network.counts("a").kills, network.counts("a").silent_ends),
        (1, 1)
    );
}

#[tokio::test(start_paused = true)]
async fn a_killed_worker_is_lost_at_once_and_its_restart_has_forgotten() {
    let (network, pool, mut events) = up(&["a"]).await;
    assert_eq!(told(&mut events).await, "a connected");
    let start = Instant::now();
    network.kill("a");
    assert_eq!(
        told(&mut events).await,
        "a lost: the worker's connection is gone"
    );
    assert_eq!(start.elapsed(), Duration::ZERO);
    let acceptor = Acceptor::new("a", 2, 0);
    network.serve("a", acceptor.clone(), echo);
    assert_eq!(acceptor.highest(), 0);
    pool.ready(["a"], LONG).await.unwrap();
    assert_eq!(acceptor.highest(), 1);
}

#[tokio::test(start_paused = true)]
async fn a_stall_fills_the_outbox_and_does_not_end_the_session() {
    let (network, pool, mut events) = up(&["a"]).await;
    assert_eq!(told(&mut events).await, "a connected");
    network.stall("a", Direction::ToWorker);
    let mut sent = 0;
    let refused = loop {
        match pool.try_send("a", note(sent)) {
            Ok(()) => sent += 1,
            Err(error) => break error.kind,
        }
    };
    assert_eq!((refused, sent), (SendErrorKind::Full, 256));
    tokio::time::sleep(LONG).await;
    assert_eq!(events.try_recv(), None);
    network.heal("a");
    for tag in 0..sent {
        assert_eq!(told(&mut events).await, format!("a said {tag}"));
    }
    assert!(network.counts("a").reads_held > 0);
}

#[tokio::test(start_paused = true)]
async fn a_delay_keeps_the_order_and_its_range() {
    let (network, pool, mut events) = up(&["a"]).await;
    assert_eq!(told(&mut events).await, "a connected");
    network.delay("a", Direction::ToWorker, millis(100)..=millis(300));
    network.delay("a", Direction::FromWorker, millis(50)..=millis(50));
    let mut times = Vec::new();
    for tag in 0..50 {
        let start = Instant::now();
        pool.try_send("a", note(tag)).unwrap();
        assert_eq!(told(&mut events).await, format!("a said {tag}"));
        times.push(start.elapsed());
    }
    let (least, most) = (times.iter().min().unwrap(), times.iter().max().unwrap());
    assert!(*least >= millis(150) && *most <= millis(352), "{times:?}");
    assert!(*most - *least > millis(100), "random: {times:?}");
    for tag in 0..200 {
        pool.try_send("a", note(tag)).unwrap();
    }
    for tag in 0..200 {
        assert_eq!(told(&mut events).await, format!("a said {tag}"));
    }
    assert_eq!(network.counts("a").messages_delayed, 500);
}

#[tokio::test(start_paused = true)]
async fn a_reset_strikes_at_the_message_that_was_named() {
    let (network, pool, mut events) = up(&["a"]).await;
    assert_eq!(told(&mut events).await, "a connected");
    network.reset_after("a", Direction::FromWorker, 3);
    for tag in 0..5 {
        pool.try_send("a", note(tag)).unwrap();
    }
    for tag in 0..3 {
        assert_eq!(told(&mut events).await, format!("a said {tag}"));
    }
    assert_eq!(told(&mut events).await, "a lost: the connection was reset");
    assert_eq!(told(&mut events).await, "a connected");
    pool.try_send("a", note(9)).unwrap();
    assert_eq!(told(&mut events).await, "a said 9");
    let counts = network.counts("a");
    assert_eq!((counts.resets, counts.messages_lost), (1, 2));
}

#[tokio::test(start_paused = true)]
async fn a_fault_of_one_address_does_not_touch_another() {
    let (network, pool, _events) = up(&["a", "b"]).await;
    network.cut("a");
    let round = pool.inject(1, ["a", "b"], |_| barrier(1)).unwrap();
    let error = round.collect(LONG).await.unwrap_err();
    let RoundError::Failed { failures } = error else {
        panic!("{error}");
    };
    assert_eq!(failures.len(), 1);
    assert_eq!(pool.state("b").unwrap().generation, 2);
    assert_eq!(network.counts("b").silent_ends, 0);
}

#[tokio::test(start_paused = true)]
async fn other_types_of_messages_are_refused_with_their_names() {
    let network = Network::new(1);
    serve_echo(&network, "a", 1);
    let connect = network.connector::<u32, u32>();
    let (pool, _events) = Pool::new(connect, PoolConfig::new(1));
    pool.insert("a", "a".to_owned());
    let missing = pool.ready(["a"], millis(100)).await.unwrap_err();
    let state = missing.missing[0].1.as_ref().unwrap();
    assert_eq!(state.phase, Phase::Blocked);
    let text = missing.to_string();
    assert!(text.contains("u32") && text.contains("Word"), "{text}");
}

#[tokio::test(start_paused = true)]
async fn a_handler_that_hangs_dies_with_its_worker_and_no_task_is_left() {
    let before = tasks();
    let network = Network::new(1);
    let started = Arc::new(Notify::new());
    let start = started.clone();
    network.serve(
        "a",
        Acceptor::new("a", 1, 0),
        move |session: WorkerSession| {
            let start = start.clone();
            async move {
                start.notify_one();
                let _held = session;
                std::future::pending::<()>().await;
            }
        },
    );
    let (pool, events) = pool(&network, 1);
    pool.insert("a", "a".to_owned());
    started.notified().await;
    network.kill("a");
    drop((pool, events, network));
    tokio::time::sleep(millis(1)).await;
    assert_eq!(tasks(), before);
}

#[tokio::test(start_paused = true)]
async fn the_last_network_and_pool_that_go_leave_no_task() {
    let before = tasks();
    let (network, pool, events) = up(&["a", "b"]).await;
    network.cut("b");
    drop(network);
    assert!(tasks() > before);
    drop((pool, events));
    // The cut one hears of nothing but silence.
    tokio::time::sleep(Duration::from_secs(11)).await;
    assert_eq!(tasks(), before);
}

#[test]
fn a_worker_whose_runtime_is_gone_resets_its_sessions() {
    let network = Network::new(1);
    let runtime = || {
        let mut builder = tokio::runtime::Builder::new_current_thread();
        builder.enable_all().build().unwrap()
    };
    let workers = runtime();
    workers.block_on(async { serve_echo(&network, "a", 1) });
    // It runs on a thread of its own, as long as it is told to.
    let (stop, stopped) = tokio::sync::oneshot::channel::<()>();
    let thread = std::thread::spawn(move || {
        let _ = workers.block_on(stopped);
    });
    runtime().block_on(async {
        let (pool, mut events) = pool(&network, 1);
        pool.insert("a", "a".to_owned());
        assert_eq!(told(&mut events).await, "a connected");
        stop.send(()).unwrap();
        thread.join().unwrap();
        assert_eq!(told(&mut events).await, "a lost: the connection was reset");
        let failed = told(&mut events).await;
        assert!(failed.contains("a: the connection was reset"), "{failed}");
        assert_ne!(pool.state("a").unwrap().phase, Phase::Up);
    });
}
