//! An owner that does not take its events, or takes them slowly.

mod double;

use bidi_session::{Counters, EventKind, OpenClass, PoolConfig};

use double::{Act, Double, LONG, Order, Word, next, short};

#[tokio::test(start_paused = true)]
async fn messages_nobody_takes_stop_that_stream_and_no_other() {
    let double = Double::default();
    let (pool, mut events) = double.pool_with(PoolConfig::new(1).with_inbox(4));
    for worker in ["a", "b"] {
        pool.insert(worker, worker.to_owned());
    }
    pool.ready(["a", "b"], LONG).await.unwrap();
    let (a, b) = (
        double.puppet("a").line().await,
        double.puppet("b").line().await,
    );
    for number in 0..4 {
        a.say(Word::note(number)).await;
    }
    // The fifth stays on the wire, and an answer behind it as well.
    a.words.send(Ok(Word::note("fifth"))).await.unwrap();
    let words = a.words.clone();
    let stuck = tokio::spawn(async move { words.send(Ok(Word::answer(1))).await });
    let order = |_: &_| Order::new("barrier");
    let round = pool.inject(1, ["a"], order).unwrap();
    assert!(round.collect(LONG).await.is_err());
    let round = pool.inject(2, ["b"], order).unwrap();
    b.say(Word::answer(2)).await;
    assert_eq!(round.collect(LONG).await.unwrap().len(), 1);
    // Taking them lets the stream go on.
    let mut seen = Vec::new();
    while seen.len() < 7 {
        seen.push(next(&mut events).await);
    }
    stuck.await.unwrap().unwrap();
    a.say(Word::answer(1)).await;
    assert!(seen.contains(&"a said fifth".to_owned()), "{seen:?}");
    assert_eq!(pool.counters().late, 2);
}

#[tokio::test(start_paused = true)]
async fn the_end_of_a_session_is_told_however_full_the_mailbox_is() {
    let double = Double::default();
    let (pool, mut events) = double.pool_with(PoolConfig::new(1).with_inbox(2));
    pool.insert("a", "a".to_owned());
    let line = double.puppet("a").line().await;
    line.say(Word::note(1)).await;
    line.say(Word::note(2)).await;
    pool.remove("a");
    pool.insert("a", "a".to_owned());
    let _line = double.puppet("a").line().await;
    let told = [
        "a connected",
        "a said 1",
        "a said 2",
        "a lost: the worker was removed",
        "a removed",
        "a connected",
    ];
    for expected in told {
        assert_eq!(next(&mut events).await, expected);
    }
}

#[tokio::test(start_paused = true)]
async fn dropped_events_discard_messages_and_stop_nothing_else() {
    let double = Double::default();
    let (pool, mut events) = double.pool_with(PoolConfig::new(1).with_inbox(4));
    pool.insert("a", "a".to_owned());
    let line = double.puppet("a").line().await;
    for number in 0..3 {
        line.say(Word::note(number)).await;
    }
    // One batch is in the owner's hands already.
    assert_eq!(next(&mut events).await, "a connected");
    assert_eq!(next(&mut events).await, "a said 0");
    line.say(Word::note(3)).await;
    drop(events);
    for number in 4..104 {
        line.say(Word::note(number)).await;
    }
    let round = pool.inject(1, ["a"], |_| Order::new("barrier")).unwrap();
    line.say(Word::answer(1)).await;
    assert_eq!(round.collect(LONG).await.unwrap().len(), 1);
    let mut expected = Counters::default();
    expected.discarded = 103;
    assert_eq!(pool.counters(), expected);
}

#[tokio::test(start_paused = true)]
async fn dropping_events_lets_a_stream_go_on_that_waited_for_room() {
    let double = Double::default();
    let (pool, events) = double.pool_with(PoolConfig::new(1).with_inbox(2));
    pool.insert("a", "a".to_owned());
    let line = double.puppet("a").line().await;
    line.say(Word::note(1)).await;
    line.say(Word::note(2)).await;
    line.words.send(Ok(Word::note("stuck"))).await.unwrap();
    drop(events);
    line.say(Word::note("and on")).await;
    assert_eq!(pool.counters().discarded, 4);
}

#[tokio::test(start_paused = true)]
async fn a_flood_of_one_worker_does_not_hide_another() {
    let double = Double::default();
    let (_pool, mut events, lines) = double.up(&["a", "b"]).await;
    for number in 0..200 {
        lines[0].say(Word::note(number)).await;
    }
    lines[1].say(Word::note("small")).await;
    let mut before = 0;
    while next(&mut events).await != "b said small" {
        before += 1;
    }
    assert!(before <= 34, "{before} events came first");
}

#[tokio::test(start_paused = true)]
async fn failures_that_nobody_takes_are_told_as_one() {
    let double = Double::default();
    let (pool, mut events) = double.pool();
    double.puppet("a").set(Act::Fail(OpenClass::Unreachable));
    pool.insert("a", "a".to_owned());
    tokio::time::sleep(LONG).await;
    assert!(double.puppet("a").attempts() > 700);
    let event = events.recv().await.unwrap();
    let EventKind::AttemptFailed {
        attempts, error, ..
    } = event.kind
    else {
        panic!("{}", short(&event));
    };
    assert_eq!(attempts, double.puppet("a").attempts());
    assert_eq!(error.to_string(), "the puppet refuses");
    assert_eq!(events.try_recv(), None);
}

#[tokio::test(start_paused = true)]
async fn silent_sessions_that_nobody_takes_do_not_pile_up() {
    let double = Double::default();
    let (pool, mut events) = double.pool();
    pool.insert("a", "a".to_owned());
    for _ in 0..1000 {
        drop(double.puppet("a").line().await);
    }
    pool.close().await;
    let mut told = Vec::new();
    while let Some(event) = events.recv().await {
        told.push(short(&event));
    }
    assert!(told.len() < 80, "{}", told.len());
    // What is told keeps its grammar: each beginning has its end.
    let count = |text: &str| told.iter().filter(|one| one.contains(text)).count();
    assert_eq!(count("connected"), count("lost"));
    assert_eq!(told.last().unwrap(), "a removed");
}

#[tokio::test(start_paused = true)]
async fn entries_that_come_and_go_untold_do_not_pile_up() {
    let double = Double::default();
    let (pool, mut events) = double.pool();
    for _ in 0..1000 {
        pool.insert("a", "a".to_owned());
        pool.remove("a");
    }
    let mut told = 0;
    while events.try_recv().is_some() {
        told += 1;
    }
    assert!(told <= 65, "{told}");
}

#[tokio::test(start_paused = true)]
async fn a_higher_term_is_told_and_only_slows_that_worker() {
    let double = Double::default();
    let (pool, mut events, _lines) = double.up(&["b"]).await;
    assert_eq!(next(&mut events).await, "b connected");
    double.puppet("a").set(Act::Fail(OpenClass::HigherTerm(9)));
    pool.insert("a", "a".to_owned());
    assert_eq!(next(&mut events).await, "a saw term 9");
    let start = tokio::time::Instant::now();
    assert_eq!(next(&mut events).await, "a saw term 9");
    assert_eq!(start.elapsed().as_secs(), 10);
    assert!(pool.state("b").unwrap().session().is_some());
}

#[tokio::test(start_paused = true)]
async fn a_broken_stream_is_told_although_messages_fill_the_mailbox() {
    let double = Double::default();
    let (pool, mut events) = double.pool_with(PoolConfig::new(1).with_inbox(2));
    pool.insert("a", "a".to_owned());
    let line = double.puppet("a").line().await;
    line.say(Word::note(1)).await;
    line.say(Word::note(2)).await;
    let round = pool.inject(1, ["a"], |_| Order::new("barrier")).unwrap();
    // On the wire when the transport goes, with an error behind it.
    line.words.send(Ok(Word::note(3))).await.unwrap();
    let words = line.words.clone();
    drop(line);
    let broken = Err(bidi_session::Failure::new("reset"));
    let sent = tokio::time::timeout(LONG, words.send(broken)).await;
    sent.expect("the stream was not read to its end").unwrap();
    assert!(matches!(
        round.collect(LONG).await,
        Err(bidi_session::RoundError::Failed { .. })
    ));
    let told = ["connected", "said 1", "said 2", "said 3", "lost: reset"];
    for expected in told {
        assert_eq!(next(&mut events).await, format!("a {expected}"));
    }
}

#[tokio::test(start_paused = true)]
async fn sessions_that_break_over_a_full_mailbox_do_not_pile_up_messages() {
    let double = Double::default();
    let (pool, mut events) = double.pool_with(PoolConfig::new(1).with_inbox(2));
    pool.insert("a", "a".to_owned());
    for session in 0..20 {
        let line = double.puppet("a").line().await;
        let words = line.words.clone();
        for number in 0..2 {
            // Without an owner that takes them only the first ones are read.
            let word = Word::note(format!("{session}.{number}"));
            tokio::time::timeout(LONG, words.send(Ok(word))).await.ok();
        }
        drop(line);
        words.send(Ok(Word::note("beyond"))).await.ok();
    }
    pool.close().await;
    let mut messages = 0;
    loop {
        let event = next(&mut events).await;
        if event == "end" {
            break;
        }
        messages += usize::from(event.contains(" said "));
    }
    // Two of the bound, and what the first session had on the wire beyond it.
    assert_eq!(messages, 3);
}
