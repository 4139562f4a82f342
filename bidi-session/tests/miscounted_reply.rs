//! Answers that must not count, sent by a scripted worker over a real stream.
#![cfg(feature = "tonic")]
#![expect(clippy::unwrap_used, reason = "a failure is the test's")]

mod real;

use std::time::Duration;

use bidi_session::tonic::Acceptor;
use bidi_session::{Counters, EventKind, Events, Pool, Round, RoundError};
use tokio::sync::mpsc;

use real::{
    Connect, Host, LONG, Node, Reply, WorkerSession, barrier, next, note, pool, reply, soon,
};

/// Two workers whose sessions the test plays.
struct Stage {
    pool: Pool<Connect>,
    events: Events<Connect>,
    sessions: [mpsc::Receiver<WorkerSession>; 2],
    /// Of `w1`.
    acceptor: Acceptor,
    _host: Host,
}

impl Stage {
    async fn new() -> Self {
        let acceptor = Acceptor::new("w1", 1, 0);
        let (w1, s1) = Node::played(acceptor.clone());
        let (w2, s2) = Node::played(Acceptor::new("w2", 1, 0));
        let host = Host::start(w1);
        let (pool, events) = pool(1);
        pool.insert("w1", host.endpoint());
        pool.insert("w2", real::endpoint(host.also(w2)));
        pool.ready(["w1", "w2"], LONG).await.unwrap();
        Self {
            pool,
            events,
            sessions: [s1, s2],
            acceptor,
            _host: host,
        }
    }

    async fn session(&mut self, index: usize) -> WorkerSession {
        soon(self.sessions[index].recv()).await.unwrap()
    }

    fn inject(&self, epoch: u64) -> Round<Reply> {
        self.pool.inject(epoch, ["w1"], |_| barrier(epoch)).unwrap()
    }

    /// Sends these and waits until the pool has seen them.
    async fn say(&mut self, session: &WorkerSession, epochs: &[u64]) {
        for epoch in epochs {
            session.send(reply(*epoch)).await.unwrap();
        }
        session.send(note("settled")).await.unwrap();
        while !matches!(next(&mut self.events).await.kind, EventKind::Message(_)) {}
    }
}

#[tokio::test]
async fn each_kind_is_counted_once_and_never_counted_in() {
    let mut stage = Stage::new().await;
    let (w1, w2) = (stage.session(0).await, stage.session(1).await);
    let mut expected = Counters::default();
    let round = stage.inject(10);
    stage.say(&w1, &[9]).await;
    expected.unknown = 1;
    assert_eq!(stage.pool.counters(), expected);
    stage.say(&w2, &[10]).await;
    expected.not_a_target = 1;
    assert_eq!(stage.pool.counters(), expected);
    stage.say(&w1, &[10, 10]).await;
    expected.duplicate = 1;
    assert_eq!(round.collect(LONG).await.unwrap().len(), 1);
    assert_eq!(stage.pool.counters(), expected);
    // Its round has timed out.
    let timed_out = stage.inject(11).collect(Duration::from_millis(20)).await;
    assert!(matches!(timed_out, Err(RoundError::TimedOut { .. })));
    stage.say(&w1, &[11]).await;
    expected.late = 1;
    assert_eq!(stage.pool.counters(), expected);
    // The session that was asked is over.
    let round = stage.inject(12);
    stage.acceptor.reset("", 0);
    assert!(matches!(
        round.collect(LONG).await,
        Err(RoundError::Failed { .. })
    ));
    let w1 = stage.session(0).await;
    stage.pool.ready(["w1"], LONG).await.unwrap();
    let round = stage.inject(13);
    stage.say(&w1, &[12]).await;
    expected.older_generation = 1;
    assert_eq!(stage.pool.counters(), expected);
    stage.say(&w1, &[13]).await;
    assert_eq!(round.collect(LONG).await.unwrap().len(), 1);
    assert_eq!(stage.pool.counters(), expected);
}
