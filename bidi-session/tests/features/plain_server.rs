//! S01: servers that do not know this crate, some of which read before they answer.

use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use bidi_session::tonic::{Handshake, Tonic};
use bidi_session::{Attempt, EventKind, Events, OpenClass, Pool, PoolConfig};
use tokio::sync::mpsc;
use tokio::time::Instant;
use tokio_stream::Stream;
use tokio_stream::wrappers::ReceiverStream;
use tonic::{Request, Response, Status, Streaming};

use crate::real::wire::worker_server::Worker;
use crate::real::{
    AT_ONCE, Command, Connect, Host, LONG, Node, Reply, WorkerClient, answer, command, connect,
    connected, disconnected, failed_attempt, next, note, soon, within,
};

type Replies = Pin<Box<dyn Stream<Item = Result<Reply, Status>> + Send>>;

/// A plain echo service; each answers its headers at another moment.
#[derive(Clone)]
struct Plain {
    kind: Kind,
    /// Calls that held their headers back.
    held: Arc<AtomicU32>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    /// Before it reads.
    AtOnce,
    /// After the first message.
    ReadsFirst,
    /// With its own first message, 5 s after the first one came.
    Late,
}

impl Plain {
    fn new(kind: Kind) -> Self {
        Self {
            kind,
            held: Arc::default(),
        }
    }

    fn held(&self) -> u32 {
        self.held.load(Ordering::SeqCst)
    }
}

#[tonic::async_trait]
impl Worker for Plain {
    type ControlStream = Replies;

    async fn control(
        &self,
        request: Request<Streaming<Command>>,
    ) -> Result<Response<Replies>, Status> {
        let mut inbound = request.into_inner();
        let (replies, stream) = mpsc::channel(16);
        if self.kind != Kind::AtOnce {
            self.held.fetch_add(1, Ordering::SeqCst);
            let Some(first) = inbound.message().await? else {
                return Err(Status::cancelled("no first message"));
            };
            if self.kind == Kind::Late {
                tokio::time::sleep(Duration::from_secs(5)).await;
            }
            replies.send(Ok(answer(first))).await.unwrap();
        }
        tokio::spawn(async move {
            while let Ok(Some(command)) = inbound.message().await {
                if replies.send(Ok(answer(command))).await.is_err() {
                    return;
                }
            }
        });
        Ok(Response::new(Box::pin(ReceiverStream::new(stream))))
    }

    async fn apply(&self, _: Request<Command>) -> Result<Response<Reply>, Status> {
        Err(Status::unimplemented("streams only"))
    }
}

fn off() -> Connect {
    Tonic::new(|channel, request: Request<_>| async move {
        assert!(request.metadata().is_empty(), "a handshake was sent");
        WorkerClient::new(channel).control(request).await
    })
    .with_answers(|reply: &Reply| reply.epoch)
    .with_handshake(Handshake::Off)
}

fn pool(connect: Connect) -> (Pool<Connect>, Events<Connect>) {
    Pool::new(connect, PoolConfig::new(1).with_seed(7))
}

/// Goes through a session with a server that needs a greeting, or not.
async fn serves_without_the_handshake(kind: Kind) -> u32 {
    let plain = Plain::new(kind);
    let host = Host::start(plain.clone());
    let (pool, mut events) = pool(off().with_greeting(|attempt| {
        vec![
            command(format!("hello {}", attempt.worker)),
            command("and more"),
        ]
    }));
    let start = Instant::now();
    pool.insert("w1", host.endpoint());
    let (_, incarnation) = within(LONG, connected(&mut events)).await;
    assert_eq!(incarnation, None);
    let waited = start.elapsed().as_secs();
    assert_eq!(waited >= 5, kind == Kind::Late, "{waited} s");
    pool.try_send("w1", command("later")).unwrap();
    for text in ["hello w1", "and more", "later"] {
        assert_eq!(next(&mut events).await.kind, EventKind::Message(note(text)));
    }
    let barrier = |_: &_| Command {
        epoch: 1,
        body: Vec::new(),
    };
    let round = pool.inject(1, ["w1"], barrier).unwrap();
    assert_eq!(soon(round.collect(AT_ONCE)).await.unwrap().len(), 1);
    host.kill();
    disconnected(&mut events).await;
    plain.held()
}

#[tokio::test]
async fn a_plain_server_needs_no_handshake() {
    assert_eq!(serves_without_the_handshake(Kind::AtOnce).await, 0);
}

#[tokio::test]
async fn s01_a_server_that_reads_first_gets_the_greeting() {
    let (reads_first, late) = tokio::join!(
        serves_without_the_handshake(Kind::ReadsFirst),
        serves_without_the_handshake(Kind::Late)
    );
    assert!(reads_first > 0 && late > 0);
    println!("CASE S01 fault={}", reads_first + late);
}

#[tokio::test]
async fn s01_with_the_handshake_the_same_servers_fail_the_attempt_and_say_why() {
    let with_handshake = || connect().with_handshake(Handshake::Metadata);
    let fails = |kind, connect: Connect, why: &'static str| async move {
        let plain = Plain::new(kind);
        let host = Host::start(plain.clone());
        let (pool, mut events) = pool(connect);
        pool.insert("w1", host.endpoint());
        let text = failed_attempt(&mut events).await;
        assert!(text.contains(why), "{kind:?}: {text}");
        assert!(text.contains("`Handshake::Off`"), "{kind:?}: {text}");
        assert!(pool.state("w1").unwrap().session().is_none());
        plain.held()
    };
    let greeting = |_: &_| vec![command("hello")];
    let held = tokio::join!(
        fails(Kind::AtOnce, with_handshake(), "without a handshake"),
        fails(Kind::ReadsFirst, with_handshake(), "no answer within 8 s"),
        fails(
            Kind::ReadsFirst,
            with_handshake().with_greeting(greeting),
            "without a handshake"
        ),
        fails(Kind::Late, with_handshake(), "no answer within 8 s"),
        fails(
            Kind::Late,
            with_handshake().with_greeting(greeting),
            "without a handshake"
        ),
    );
    assert_eq!(held.0, 0);
    let held = held.1 + held.2 + held.3 + held.4;
    assert!(held >= 4);
    println!("CASE S01 fault={held}");
}

#[tokio::test]
async fn without_a_greeting_the_text_says_that_one_is_needed() {
    let host = Host::start(Plain::new(Kind::ReadsFirst));
    let (pool, mut events) = pool(off());
    pool.insert("w1", host.endpoint());
    let text = failed_attempt(&mut events).await;
    assert!(text.contains("`Tonic::with_greeting`"), "{text}");
}

#[tokio::test]
async fn an_incarnation_cannot_be_expected_without_a_handshake() {
    let host = Host::start(Plain::new(Kind::AtOnce));
    let (pool, mut events) = pool(off());
    pool.insert_incarnation("w1", host.endpoint(), 3);
    let event = within(AT_ONCE, events.recv()).await.unwrap();
    let EventKind::AttemptFailed { error, .. } = event.kind else {
        panic!("no failed attempt: {event:?}");
    };
    assert_eq!(error.class, OpenClass::Refused);
    assert!(error.text.contains("an incarnation is expected"), "{error}");
}

#[tokio::test]
async fn a_worker_behind_the_acceptor_hears_the_greeting_first_too() {
    let host = Host::start(Node::echo("w1", 1));
    let greeting = |attempt: &Attempt| vec![command(format!("term {}", attempt.term))];
    let (pool, mut events) = pool(connect().with_greeting(greeting));
    for _ in 0..2 {
        pool.insert("w1", host.endpoint());
        assert_eq!(connected(&mut events).await.1, Some(1));
        pool.try_send("w1", command("later")).unwrap();
        for text in ["term 1", "later"] {
            assert_eq!(next(&mut events).await.kind, EventKind::Message(note(text)));
        }
        pool.remove("w1");
        disconnected(&mut events).await;
        assert_eq!(next(&mut events).await.kind, EventKind::Removed);
    }
}

#[tokio::test]
async fn a_worker_behind_the_acceptor_refuses_a_stream_without_the_handshake() {
    let host = Host::start(Node::echo("w1", 1));
    let (pool, mut events) = pool(off());
    pool.insert("w1", host.endpoint());
    let text = failed_attempt(&mut events).await;
    assert!(text.contains("no bidi-session-version header"), "{text}");
}
