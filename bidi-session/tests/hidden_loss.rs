//! A worker that is lost behind messages that nobody takes.
#![cfg(feature = "tonic")]

mod real;

use std::sync::Arc;

use bidi_session::tonic::Acceptor;
use bidi_session::{EventKind, PoolConfig, RoundError};
use tokio::sync::Notify;

use real::{
    AT_ONCE, Host, LONG, Node, WorkerSession, barrier, connected, next, note, pool_with, soon,
    within,
};

#[tokio::test]
async fn a_death_fails_the_round_and_is_told_although_nobody_takes_the_messages() {
    let said = Arc::new(Notify::new());
    let all_said = said.clone();
    let handler = move |session: WorkerSession| {
        let said = said.clone();
        async move {
            for number in 0..40 {
                session.send(note(number.to_string())).await.unwrap();
            }
            said.notify_one();
            std::future::pending().await
        }
    };
    let host = Host::start(Node::new(Acceptor::new("w1", 1, 0), handler));
    let (pool, mut events) = pool_with(PoolConfig::new(1).with_inbox(4));
    pool.insert("w1", host.endpoint());
    pool.ready(["w1"], LONG).await.unwrap();
    let round = pool.inject(1, ["w1"], |_| barrier(1)).unwrap();
    soon(all_said.notified()).await;
    host.kill();
    let failed = within(AT_ONCE, round.collect(LONG)).await;
    assert!(matches!(failed, Err(RoundError::Failed { .. })));
    assert_eq!(pool.state("w1").unwrap().session(), None);
    // What had arrived comes first, in order, and then the end.
    let (began, _) = connected(&mut events).await;
    let mut told = 0;
    let ended = loop {
        let event = next(&mut events).await;
        match event.kind {
            EventKind::Message(reply) => assert_eq!(reply.body, told.to_string().as_bytes()),
            EventKind::Disconnected { .. } => break event.generation,
            kind => panic!("{kind:?}"),
        }
        told += 1;
    };
    assert_eq!(ended, began);
    assert!(told >= 4, "{told}");
}
