//! Both sides that write before they read must not wait for each other.

use bidi_session::tonic::{Acceptor, Session};
use bidi_session::{PoolConfig, SendErrorKind};

use crate::support::{
    Accepting, Command, Host, LONG, Pool, Reply, connector, endpoint, next, note, soon, told,
};

const PUSHED: usize = 100;
const CHUNKS: usize = 160;
const CHUNK_BYTES: usize = 64 * 1024;

/// Pushes before it reads, then tells what it has read and whether it was in order.
async fn push_then_read(mut session: Session<Command, Reply>) {
    for number in 0..PUSHED {
        session.send(told(number.to_string())).await.unwrap();
    }
    for number in 0..CHUNKS {
        let command = session.recv().await.unwrap();
        assert_eq!(command.body.len(), CHUNK_BYTES);
        assert_eq!(usize::from(command.body[0]), number, "out of order");
    }
    session.send(told("all")).await.unwrap();
    while session.recv().await.is_some() {}
}

#[tokio::test]
async fn both_sides_write_before_they_read_and_all_arrives_in_order() {
    let acceptor = Acceptor::new("w1", 1, 0);
    let host = Host::start(Accepting::new(acceptor, push_then_read));
    let config = PoolConfig::new(1).with_outbox(4, 4 * CHUNK_BYTES + 1024);
    let (pool, mut events) = Pool::new(connector(), config.with_inbox(4));
    pool.insert("w1", endpoint(host.address));
    pool.ready(["w1"], LONG).await.unwrap();
    // 10 MB, while nobody takes the events.
    let mut full = 0;
    for number in 0..CHUNKS {
        let mut body = vec![0; CHUNK_BYTES];
        body[0] = u8::try_from(number).unwrap();
        if let Err(refused) = pool.try_send("w1", note(body)) {
            assert_eq!(refused.kind, SendErrorKind::Full);
            full += 1;
            soon(pool.send("w1", refused.message)).await.unwrap();
        }
    }
    assert!(full > 0, "an outbox of 4 was never full");
    assert_eq!(next(&mut events).await, "w1 connected to 1");
    for number in 0..PUSHED {
        assert_eq!(next(&mut events).await, format!("w1 said {number}"));
    }
    assert_eq!(next(&mut events).await, "w1 said all");
}
