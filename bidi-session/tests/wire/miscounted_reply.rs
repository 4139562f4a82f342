//! Answers that must not count, sent by workers over real streams.

use std::sync::Arc;
use std::time::Duration;

use bidi_session::tonic::{Acceptor, Session};
use bidi_session::{Counters, DisconnectReason, RoundError};
use tokio::sync::{Notify, mpsc};

use crate::support::{
    Accepting, Command, Host, LONG, Pool, Reply, answer, barrier, endpoint, next, pool, soon, told,
};

/// A worker that says what the test tells it, on its present session.
struct Puppet {
    host: Host,
    lines: mpsc::Sender<Line>,
    heard: mpsc::Receiver<Command>,
}

enum Line {
    Say(Reply),
    Leave,
}

impl Puppet {
    fn start(worker: &str) -> Self {
        let (lines, script) = mpsc::channel(16);
        let (told, heard) = mpsc::channel(16);
        let script = Arc::new(tokio::sync::Mutex::new(script));
        let play = move |session| play(script.clone(), told.clone(), session);
        Self {
            host: Host::start(Accepting::new(Acceptor::new(worker, 1, 0), play)),
            lines,
            heard,
        }
    }

    async fn say(&self, replies: impl IntoIterator<Item = Reply>) {
        for reply in replies {
            soon(self.lines.send(Line::Say(reply))).await.unwrap();
        }
    }

    async fn leave(&self) {
        soon(self.lines.send(Line::Leave)).await.unwrap();
    }

    async fn heard(&mut self) -> Command {
        soon(self.heard.recv()).await.unwrap()
    }
}

async fn play(
    script: Arc<tokio::sync::Mutex<mpsc::Receiver<Line>>>,
    told: mpsc::Sender<Command>,
    mut session: Session<Command, Reply>,
) {
    let mut script = script.lock().await;
    loop {
        tokio::select! {
            command = session.recv() => match command {
                Some(command) => told.send(command).await.unwrap(),
                None => return,
            },
            line = script.recv() => match line {
                Some(Line::Say(reply)) => session.send(reply).await.unwrap(),
                Some(Line::Leave) | None => return,
            },
        }
    }
}

/// Says a last word and waits for it, so that all before it was counted.
async fn settled(puppet: &Puppet, events: &mut bidi_session::Events<crate::support::Wire>) {
    puppet.say([told("settled")]).await;
    while !next(events).await.ends_with("said settled") {}
}

fn inject(pool: &Pool, epoch: u64, worker: &str) -> bidi_session::Round<Reply> {
    pool.inject(epoch, [worker], |_| barrier(epoch)).unwrap()
}

#[tokio::test]
async fn each_kind_of_stray_is_counted_once_and_never_counted_in() {
    let (mut w1, w2) = (Puppet::start("w1"), Puppet::start("w2"));
    let (pool, mut events) = pool(1);
    pool.insert("w1", endpoint(w1.host.address));
    pool.insert("w2", endpoint(w2.host.address));
    pool.ready(["w1", "w2"], LONG).await.unwrap();
    let round = inject(&pool, 10, "w1");
    w1.heard().await;
    // Unknown, of a worker that was not asked, right, and the right one once more.
    w1.say([answer(9)]).await;
    w2.say([answer(10)]).await;
    settled(&w2, &mut events).await;
    w1.say([answer(10), answer(10)]).await;
    assert_eq!(round.collect(LONG).await.unwrap().len(), 1);
    settled(&w1, &mut events).await;
    // Late: its round had timed out.
    let round = inject(&pool, 11, "w1");
    let timed_out = round.collect(Duration::from_millis(20)).await;
    assert!(matches!(timed_out, Err(RoundError::TimedOut { .. })));
    w1.say([answer(11)]).await;
    settled(&w1, &mut events).await;
    // Of an older generation: the session of its round is over.
    let round = inject(&pool, 12, "w1");
    w1.leave().await;
    let failed = round.collect(LONG).await;
    let reason = DisconnectReason::Closed;
    let failures = vec![("w1".into(), reason)];
    assert_eq!(failed, Err(RoundError::Failed { failures }));
    pool.ready(["w1"], LONG).await.unwrap();
    let round = inject(&pool, 13, "w1");
    w1.say([answer(12)]).await;
    settled(&w1, &mut events).await;
    w1.say([answer(13)]).await;
    assert_eq!(round.collect(LONG).await.unwrap().len(), 1);
    let mut expected = Counters::default();
    expected.unknown = 1;
    expected.not_a_target = 1;
    expected.duplicate = 1;
    expected.late = 1;
    expected.older_generation = 1;
    assert_eq!(pool.counters(), expected);
}

#[tokio::test]
async fn a_late_answer_after_a_failure_does_not_complete_the_next_round() {
    let (w1, mut w2) = (Puppet::start("w1"), Puppet::start("w2"));
    let (pool, mut events) = pool(1);
    pool.insert("w1", endpoint(w1.host.address));
    pool.insert("w2", endpoint(w2.host.address));
    pool.ready(["w1", "w2"], LONG).await.unwrap();
    let round = pool.inject(10, ["w1", "w2"], |_| barrier(10)).unwrap();
    w2.heard().await;
    w1.leave().await;
    assert!(matches!(
        round.collect(LONG).await,
        Err(RoundError::Failed { .. })
    ));
    pool.ready(["w1", "w2"], LONG).await.unwrap();
    let round = pool.inject(11, ["w1", "w2"], |_| barrier(11)).unwrap();
    // During recovery, and twice.
    w2.say([answer(10), answer(10)]).await;
    w1.say([answer(11)]).await;
    settled(&w2, &mut events).await;
    let mut round = std::pin::pin!(round.collect(LONG));
    let early = tokio::time::timeout(Duration::from_millis(50), round.as_mut()).await;
    assert!(early.is_err(), "{early:?}");
    w2.say([answer(11)]).await;
    assert_eq!(round.await.unwrap().len(), 2);
    // And after it.
    w2.say([answer(10)]).await;
    settled(&w2, &mut events).await;
    assert_eq!(pool.counters().late, 3);
}

#[tokio::test]
async fn removal_in_flight_ends_the_round_once_also_with_the_same_id_again() {
    let mut w2 = Puppet::start("w2");
    let w1 = Host::echo("w1", 1);
    let (pool, _events) = pool(1);
    pool.insert("w1", endpoint(w1.address));
    pool.insert("w2", endpoint(w2.host.address));
    for (epoch, is_back_at_once) in [(1, false), (3, true)] {
        pool.ready(["w1", "w2"], LONG).await.unwrap();
        let round = pool
            .inject(epoch, ["w1", "w2"], |_| barrier(epoch))
            .unwrap();
        w2.heard().await;
        assert!(pool.remove("w2"));
        if is_back_at_once {
            pool.insert("w2", endpoint(w2.host.address));
        }
        let failures = vec![("w2".into(), DisconnectReason::Removed)];
        let expected = Err(RoundError::Failed { failures });
        assert_eq!(soon(round.collect(LONG)).await, expected);
        // The others go on without it.
        let round = inject(&pool, epoch + 1, "w1");
        assert_eq!(round.collect(LONG).await.unwrap().len(), 1);
        pool.insert("w2", endpoint(w2.host.address));
    }
}

#[tokio::test]
async fn removal_and_answer_at_one_moment_resolve_the_round_exactly_once() {
    let gate = Arc::new(Notify::new());
    let opened = gate.clone();
    let script = move |mut session: Session<Command, Reply>| {
        let opened = opened.clone();
        async move {
            while let Some(command) = session.recv().await {
                opened.notified().await;
                session.send(answer(command.epoch)).await.ok();
            }
        }
    };
    let host = Host::start(Accepting::new(Acceptor::new("w1", 1, 0), script));
    let (pool, events) = pool(1);
    drop(events);
    let (mut answered, mut removed) = (0, 0);
    for epoch in 1..=150_u64 {
        pool.insert("w1", endpoint(host.address));
        pool.ready(["w1"], LONG).await.unwrap();
        let round = inject(&pool, epoch, "w1");
        gate.notify_one();
        // Spread over the time that an answer takes.
        for _ in 0..epoch % 50 {
            tokio::task::yield_now().await;
            std::thread::sleep(Duration::from_micros(5));
        }
        pool.remove("w1");
        match soon(round.collect(LONG)).await {
            Ok(answers) => answered += answers.len(),
            Err(RoundError::Failed { failures }) => removed += failures.len(),
            other => panic!("{other:?}"),
        }
    }
    assert_eq!(answered + removed, 150);
    println!("{answered} answered, {removed} removed");
}
