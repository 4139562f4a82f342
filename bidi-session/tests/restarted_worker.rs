//! Workers that restart, move or hang up again and again.
#![cfg(feature = "tonic")]

mod real;

use bidi_session::tonic::Acceptor;

use real::{AT_ONCE, Host, Node, command, connected, disconnected, pool, soon, within};

#[tokio::test]
async fn a_worker_that_moves_leaves_its_old_address_at_once() {
    let (node, mut sessions) = Node::played(Acceptor::new("w1", 1, 0));
    let old = Host::start(node);
    let new = Host::start(Node::echo("w1", 2));
    let (pool, mut events) = pool(1);
    pool.insert("w1", old.endpoint());
    let (first, _) = connected(&mut events).await;
    let session = soon(sessions.recv()).await.unwrap();
    pool.insert("w1", old.endpoint());
    assert_eq!(
        pool.state("w1").unwrap().session(),
        Some(first),
        "the same place: no-op"
    );
    pool.insert("w1", new.endpoint());
    within(AT_ONCE, session.sender().over()).await;
    let (ended, reason) = disconnected(&mut events).await;
    assert_eq!(
        (ended, &reason[..]),
        (first, "the worker has another target")
    );
    assert_eq!(connected(&mut events).await.1, Some(2));
    assert!(events.try_recv().is_none(), "one end and one beginning");
}

#[tokio::test]
async fn no_message_of_one_session_reaches_the_next() {
    let (node, mut sessions) = Node::played(Acceptor::new("w1", 1, 0));
    let host = Host::start(node.clone());
    let address = host.address;
    let (pool, mut events) = pool(1);
    pool.insert("w1", host.endpoint());
    let mut host = Some(host);
    let mut lost = 0;
    for round in 0..20_u32 {
        let (generation, _) = connected(&mut events).await;
        let mut session = soon(sessions.recv()).await.unwrap();
        assert_eq!(session.generation(), generation);
        for _ in 0..100 {
            pool.try_send("w1", command(round.to_string())).unwrap();
        }
        let read = round % 7;
        for _ in 0..read {
            let command = soon(session.recv()).await.unwrap();
            assert_eq!(command.body, round.to_string().into_bytes());
        }
        lost += 100 - read;
        if round % 2 == 0 {
            node.acceptor.reset("", 0);
        } else {
            host.take().unwrap().kill();
            host = Some(Host::start_at(address, node.clone()));
        }
        assert_eq!(disconnected(&mut events).await.0, generation);
    }
    println!("CASE lost-with-their-session fault={lost}");
}
