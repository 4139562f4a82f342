//! Servers that accept and then say nothing, or not what a worker says.
#![cfg(feature = "tonic")]

mod real;

use std::pin::Pin;
use std::time::Duration;

use bidi_session::{EventKind, OpenClass, PoolConfig};
use tokio::net::TcpListener;
use tokio::time::Instant;
use tokio_stream::Stream;
use tonic::{Request, Response, Status, Streaming};

use real::wire::worker_server::Worker;
use real::{
    AT_ONCE, Command, Host, Node, Reply, command, connected, endpoint, failed_attempt, next, note,
    pool, pool_with, soon, unused_address, within,
};

type Replies = Pin<Box<dyn Stream<Item = Result<Reply, Status>> + Send>>;

/// What a server that is no worker does with a stream.
#[derive(Clone, Copy)]
enum Stranger {
    /// Answers when it has read a message, as many servers do.
    ReadsFirst,
    /// Answers at once, without the handshake.
    Plain,
    /// Does not have the method.
    Unimplemented,
}

#[tonic::async_trait]
impl Worker for Stranger {
    type ControlStream = Replies;

    async fn control(
        &self,
        mut request: Request<Streaming<Command>>,
    ) -> Result<Response<Replies>, Status> {
        match self {
            Self::ReadsFirst => drop(request.get_mut().message().await?),
            Self::Plain => {}
            Self::Unimplemented => return Err(Status::unimplemented("no such method")),
        }
        Ok(Response::new(Box::pin(tokio_stream::pending())))
    }

    async fn apply(&self, _: Request<Command>) -> Result<Response<Reply>, Status> {
        Err(Status::unimplemented("streams only"))
    }
}

#[tokio::test]
async fn a_server_that_reads_first_is_told_what_a_worker_must_do() {
    let host = Host::start(Stranger::ReadsFirst);
    let (pool, mut events) = pool(1);
    let start = Instant::now();
    pool.insert("w1", host.endpoint());
    let text = failed_attempt(&mut events).await;
    assert!(start.elapsed() >= Duration::from_secs(8));
    assert!(
        text.contains("before it reads, as `Acceptor` does"),
        "{text}"
    );
}

#[tokio::test]
async fn a_server_without_the_handshake_is_told_what_a_worker_must_do() {
    let host = Host::start(Stranger::Plain);
    let (pool, mut events) = pool(1);
    pool.insert("w1", host.endpoint());
    let text = failed_attempt(&mut events).await;
    assert!(
        text.contains("before it reads, as `Acceptor` does"),
        "{text}"
    );
}

#[tokio::test]
async fn a_server_without_the_method_is_retried_slowly_until_it_is_the_worker() {
    let host = Host::start(Stranger::Unimplemented);
    let address = host.address;
    let (pool, mut events) = pool(1);
    pool.insert("w1", host.endpoint());
    let event = soon(events.recv()).await.unwrap();
    let EventKind::AttemptFailed { error, .. } = event.kind else {
        panic!("no failed attempt: {event:?}");
    };
    assert_eq!(error.class, OpenClass::Refused);
    assert!(error.text.contains("no such method"), "{error}");
    host.kill();
    let _host = Host::start_at(address, Node::echo("w1", 1));
    connected(&mut events).await;
}

#[tokio::test]
async fn a_server_that_starts_late_is_found() {
    let address = unused_address();
    let (pool, mut events) = pool(1);
    pool.insert("w1", endpoint(address));
    let text = failed_attempt(&mut events).await;
    assert!(
        text.contains("refused") && text.contains(&address.to_string()),
        "{text}"
    );
    let _host = Host::start_at(address, Node::echo("w1", 3));
    let (generation, incarnation) = connected(&mut events).await;
    assert_eq!(pool.state("w1").unwrap().session(), Some(generation));
    assert_eq!(incarnation, Some(3));
}

#[tokio::test]
async fn a_port_that_accepts_and_says_nothing_ends_with_the_attempt() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let config = PoolConfig::new(1).with_attempt_timeout(Duration::from_millis(300));
    let (pool, mut events) = pool_with(config);
    pool.insert("w1", endpoint(address));
    let (mut socket, _) = soon(listener.accept()).await.unwrap();
    let text = failed_attempt(&mut events).await;
    assert!(text.contains("within 0.3 s"), "{text}");
    // The attempt leaves no connection behind.
    let mut preface = Vec::new();
    let read = tokio::io::AsyncReadExt::read_to_end(&mut socket, &mut preface);
    within(AT_ONCE, read).await.unwrap();
    assert!(preface.starts_with(b"PRI * HTTP/2.0"));
}

#[tokio::test]
async fn messages_of_the_owner_pass_the_handshake_metadata_by() {
    // The call may add metadata of its own, such as a credential.
    let host = Host::start(Node::echo("w1", 1));
    let connect = bidi_session::tonic::Tonic::new(|channel, mut request: Request<_>| async move {
        request
            .metadata_mut()
            .insert("authorization", "secret".parse().unwrap());
        real::WorkerClient::new(channel).control(request).await
    });
    let (pool, mut events) = bidi_session::Pool::new(connect, PoolConfig::new(1));
    pool.insert("w1", host.endpoint());
    connected(&mut events).await;
    pool.send("w1", command("hello")).await.unwrap();
    assert_eq!(
        next(&mut events).await.kind,
        EventKind::Message(note("hello"))
    );
}
