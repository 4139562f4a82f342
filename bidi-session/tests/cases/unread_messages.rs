//! Messages that nobody reads, on one side or on both.

use std::collections::HashMap;
use std::time::Duration;

use bidi_session::tonic::{Acceptor, FaultProxy, SessionStream};
use bidi_session::{EventKind, PoolConfig, SendErrorKind};
use tonic::{Request, Response, Status, Streaming};

use super::real::wire::worker_server::Worker;
use super::real::{
    Command, Host, LONG, Node, Reply, WorkerSession, barrier, command, connected, endpoint, next,
    note, pool_with, reply, soon,
};
use super::time::Watch;

/// What each worker sends: 20 MB, far more than windows and queues hold.
const CHUNKS: usize = 1000;
const CHUNK_BYTES: usize = 20 * 1024;
const TOTAL: u64 = (CHUNKS * CHUNK_BYTES) as u64;

/// Several workers behind one address.
struct Router(HashMap<String, Node>);

#[tonic::async_trait]
impl Worker for Router {
    type ControlStream = SessionStream<Reply>;

    async fn control(
        &self,
        request: Request<Streaming<Command>>,
    ) -> Result<Response<Self::ControlStream>, Status> {
        let name = request.metadata().get("bidi-session-worker").unwrap();
        let node = self.0[name.to_str().unwrap()].clone();
        node.control(request).await
    }

    async fn apply(&self, _: Request<Command>) -> Result<Response<Reply>, Status> {
        Err(Status::unimplemented("streams only"))
    }
}

fn chunk(number: usize) -> Vec<u8> {
    let mut body = vec![b'.'; CHUNK_BYTES];
    body[..4].copy_from_slice(format!("{number:04}").as_bytes());
    body
}

/// Sends its share at once, whether anyone reads or not.
async fn pour(mut session: WorkerSession) {
    for number in 0..CHUNKS {
        if session.send(note(chunk(number))).await.is_err() {
            return;
        }
    }
    while session.recv().await.is_some() {}
}

/// Sends its share in ten answers.
async fn answer_much(mut session: WorkerSession) {
    while let Some(command) = session.recv().await {
        let body = vec![b'.'; CHUNK_BYTES * CHUNKS / 10];
        let epoch = Some(command.epoch);
        if session.send(Reply { epoch, body }).await.is_err() {
            return;
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn s08_a_worker_whose_messages_nobody_reads_stops_no_other() {
    let others = ["w2", "w3", "w4"];
    let mut nodes = HashMap::new();
    nodes.insert("w1".into(), Node::new(Acceptor::new("w1", 1, 0), pour));
    for name in others {
        let node = Node::new(Acceptor::new(name, 1, 0), answer_much);
        nodes.insert(name.to_owned(), node);
    }
    let host = Host::start(Router(nodes));
    let proxy = FaultProxy::start(host.address).unwrap();
    let (pool, mut events) = pool_with(PoolConfig::new(1).with_inbox(16));
    for name in ["w1", "w2", "w3", "w4"] {
        pool.insert(name, endpoint(proxy.address()));
    }
    pool.ready(["w1", "w2", "w3", "w4"], LONG).await.unwrap();
    let watch = Watch::start();
    for epoch in 1..=10 {
        let round = pool.inject(epoch, others, |_| barrier(epoch)).unwrap();
        let answers = round.collect(LONG).await.unwrap();
        let bytes: usize = answers.iter().map(|(_, reply)| reply.body.len()).sum();
        assert_eq!(bytes as u64, TOTAL * 3 / 10);
    }
    let read = watch.within(Duration::from_secs(10), "60 MB of the others");
    // Windows and queues hold a part of the first one's; the rest waits at the worker.
    let passed = proxy.counts().to_client.passed - TOTAL * 3;
    assert!(passed < TOTAL / 2, "{passed} bytes were read for nobody");
    let held = TOTAL - passed;
    let mut expected = 0;
    while expected < CHUNKS {
        let event = next(&mut events).await;
        if let EventKind::Message(reply) = event.kind {
            assert_eq!(event.worker.as_str(), "w1");
            assert_eq!(reply.body, chunk(expected));
            expected += 1;
        }
    }
    println!("S08: 60 MB in {read:.2?}, {passed} bytes of the unread worker in memory");
    println!("CASE S08 fault={held}");
}

#[tokio::test]
async fn s09_both_sides_may_write_before_they_read() {
    let handler = |mut session: WorkerSession| async move {
        for index in 0..100_u32 {
            session.send(note(index.to_string())).await.unwrap();
        }
        let mut expected = 0_u32;
        while let Some(command) = session.recv().await {
            if command.epoch > 0 {
                session.send(reply(command.epoch)).await.unwrap();
                continue;
            }
            assert_eq!(command.body[..4], expected.to_be_bytes(), "in order");
            expected += 1;
        }
    };
    let host = Host::start(Node::new(Acceptor::new("w1", 1, 0), handler));
    let proxy = FaultProxy::start(host.address).unwrap();
    let config = PoolConfig::new(1).with_outbox(4, 1024 * 1024);
    let (pool, mut events) = pool_with(config);
    pool.insert("w1", endpoint(proxy.address()));
    connected(&mut events).await;
    let mut full = 0;
    // 10 MiB without a read of the owner's events.
    for index in 0..160_u32 {
        let mut body = vec![7; 64 * 1024];
        body[..4].copy_from_slice(&index.to_be_bytes());
        if let Err(error) = pool.try_send("w1", command(body)) {
            assert_eq!(error.kind, SendErrorKind::Full);
            full += 1;
            soon(pool.send("w1", error.message)).await.unwrap();
        }
    }
    assert!(full > 0);
    for index in 0..100_u32 {
        let event = next(&mut events).await;
        assert_eq!(event.kind, EventKind::Message(note(index.to_string())));
    }
    let round = loop {
        match pool.inject(1, ["w1"], |_| barrier(1)) {
            Ok(round) => break round,
            Err(_) => tokio::task::yield_now().await,
        }
    };
    soon(round.collect(LONG)).await.unwrap();
    let counts = proxy.counts();
    assert!(counts.to_target.passed > 10 * 1024 * 1024);
    println!(
        "S09: {} bytes there, {} back",
        counts.to_target.passed, counts.to_client.passed
    );
    println!("CASE S09 fault={full}");
}
