//! Ends that come from outside: a runtime that shuts down, a name look-up that blocks.

use std::net::SocketAddr;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use bidi_session::tonic::{Acceptor, SessionStream, Tonic};
use bidi_session::{EventKind, Events, InjectError, Pool, PoolConfig, RoundError, SendErrorKind};
use tokio::runtime::{Builder, Runtime};
use tokio::time::Instant;
use tonic::transport::Endpoint;
use tonic::{Request, Response, Status, Streaming};

use crate::real::wire::worker_server::Worker;
use crate::real::{
    AT_ONCE, Command, Connect, Host, LONG, Node, Reply, WorkerClient, barrier, command, connect,
    connected, disconnected, failed_attempt, next, note, within,
};

fn runtimes() -> [Runtime; 2] {
    let mut many = Builder::new_multi_thread();
    many.worker_threads(2);
    [many, Builder::new_current_thread()].map(|mut builder| builder.enable_all().build().unwrap())
}

fn here<F: Future>(what: F) -> F::Output {
    let runtime = Builder::new_current_thread().enable_all().build().unwrap();
    runtime.block_on(within(AT_ONCE, what))
}

/// Uses a pool whose runtime is gone, in every way.
fn use_afterwards(pool: &Pool<Connect>, events: &mut Events<Connect>, host: &Host) {
    assert_eq!(pool.state("w1"), None);
    pool.insert("w2", host.endpoint());
    assert_eq!(pool.state("w2"), None);
    let kind = pool.try_send("w1", command("late")).unwrap_err().kind;
    assert_eq!(kind, SendErrorKind::Closed);
    let why = pool.inject(2, ["w1"], |_| barrier(2)).unwrap_err();
    assert_eq!(why, InjectError::Closed);
    assert!(!pool.remove("w1"));
    here(async {
        let kind = pool.send("w1", command("late")).await.unwrap_err().kind;
        assert_eq!(kind, SendErrorKind::Closed);
        assert!(pool.ready(["w1"], LONG).await.unwrap_err().is_closed);
        pool.close().await;
        let mut last = None;
        while let Some(event) = events.recv().await {
            last = Some(event.kind);
        }
        assert_eq!(last, Some(EventKind::Removed));
    });
}

#[test]
fn handles_outlive_their_runtime_and_say_that_the_pool_is_closed() {
    for runtime in runtimes() {
        let (silent, _sessions) = Node::played(Acceptor::new("w1", 1, 0));
        let host = Host::start(silent);
        let (pool, mut events, round) = runtime.block_on(async {
            let (pool, events) = crate::real::pool(1);
            pool.insert("w1", host.endpoint());
            pool.insert("away", crate::real::endpoint(crate::real::unused_address()));
            pool.ready(["w1"], LONG).await.unwrap();
            let round = pool.inject(1, ["w1"], |_| barrier(1)).unwrap();
            (pool, events, round)
        });
        runtime.shutdown_timeout(AT_ONCE);
        std::thread::scope(|scope| {
            let other = scope.spawn(|| {
                assert_eq!(here(round.collect(LONG)), Err(RoundError::Closed));
                use_afterwards(&pool, &mut events, &host);
            });
            other.join().unwrap();
        });
        drop(pool);
    }
}

#[test]
fn a_pool_whose_runtime_is_gone_before_it_had_a_worker_closes_with_the_first_one() {
    for runtime in runtimes() {
        let host = Host::start(Node::echo("w1", 1));
        let (pool, mut events) = runtime.block_on(async { crate::real::pool(1) });
        drop(runtime);
        pool.insert("w1", host.endpoint());
        use_afterwards(&pool, &mut events, &host);
    }
}

#[test]
fn a_current_thread_runtime_drives_a_pool_while_it_is_entered() {
    let host = Host::start(Node::echo("w1", 1));
    let [_, runtime] = runtimes();
    let (pool, mut events) = runtime.block_on(async { crate::real::pool(1) });
    // Inserted from outside of it, and driven as soon as it runs.
    pool.insert("w1", host.endpoint());
    runtime.block_on(async {
        connected(&mut events).await;
        pool.send("w1", command("hello")).await.unwrap();
        assert_eq!(
            next(&mut events).await.kind,
            EventKind::Message(note("hello"))
        );
        let round = pool.inject(1, ["w1"], |_| barrier(1)).unwrap();
        assert_eq!(round.collect(LONG).await.unwrap().len(), 1);
    });
    // Nobody drives it here, and the session outlasts that.
    std::thread::sleep(Duration::from_millis(100));
    runtime.block_on(async {
        pool.send("w1", command("again")).await.unwrap();
        assert_eq!(
            next(&mut events).await.kind,
            EventKind::Message(note("again"))
        );
    });
}

/// A connector whose look-up of "blocks.test" lasts until the sender is dropped, far
/// longer than any system's 30 s.
fn blocked(live: SocketAddr) -> (Connect, Sender<()>, Receiver<()>) {
    let (release, held) = channel::<()>();
    let (asks, asked) = channel();
    let (held, asks) = (Mutex::new(held), Mutex::new(asks));
    let connect =
        Tonic::new(
            |channel, request| async move { WorkerClient::new(channel).control(request).await },
        )
        .with_answers(|reply: &Reply| reply.epoch)
        .with_resolver(move |host, _| {
            if host == "blocks.test" {
                let _ = asks.lock().unwrap().send(());
                let _ = held.lock().unwrap().recv();
            }
            Ok(vec![live])
        });
    (connect, release, asked)
}

fn named(name: &str) -> Endpoint {
    Endpoint::from_shared(format!("http://{name}:80")).unwrap()
}

#[test]
fn a_look_up_that_blocks_holds_up_its_worker_only_and_no_end() {
    for runtime in runtimes() {
        let host = Host::start(Node::echo("w1", 1));
        let (connect, release, asked) = blocked(host.address);
        let pools = runtime.block_on(async {
            let (pool, _events) = Pool::new(connect.clone(), PoolConfig::new(1));
            pool.insert("stuck", named("blocks.test"));
            pool.insert("w1", named("live.test"));
            within(AT_ONCE, pool.ready(["w1"], LONG)).await.unwrap();
            asked.recv_timeout(AT_ONCE).expect("the look-up blocks");
            let round = pool.inject(1, ["w1"], |_| barrier(1)).unwrap();
            within(AT_ONCE, round.collect(LONG)).await.unwrap();
            let start = Instant::now();
            assert!(pool.remove("stuck"));
            assert!(start.elapsed() < Duration::from_millis(500));
            pool.insert("stuck", named("blocks.test"));
            within(AT_ONCE, pool.close()).await;
            assert!(start.elapsed() < Duration::from_secs(2), "close waited");
            // One more that is in the look-up when the runtime ends.
            let (pool, events) = Pool::new(connect, PoolConfig::new(1));
            pool.insert("stuck", named("blocks.test"));
            pool.insert("w1", named("live.test"));
            within(AT_ONCE, pool.ready(["w1"], LONG)).await.unwrap();
            (pool, events)
        });
        let (ended, end) = channel();
        let stopper = std::thread::spawn(move || {
            drop(runtime);
            ended.send(()).unwrap();
        });
        end.recv_timeout(AT_ONCE)
            .expect("the look-up holds the runtime's shutdown");
        stopper.join().unwrap();
        assert!(here(pools.0.ready(["stuck"], LONG)).unwrap_err().is_closed);
        drop(release);
    }
}

#[tokio::test]
async fn nothing_is_left_of_a_pool_but_its_last_events() {
    let host = Host::start(Node::echo("w1", 1));
    let (pool, mut events) = Pool::new(connect(), PoolConfig::new(1));
    pool.insert("w1", host.endpoint());
    connected(&mut events).await;
    let clone = pool.clone();
    drop(pool);
    clone.send("w1", command("still here")).await.unwrap();
    assert_eq!(
        next(&mut events).await.kind,
        EventKind::Message(note("still here"))
    );
    drop(clone);
    let mut told = Vec::new();
    while let Some(event) = within(AT_ONCE, events.recv()).await {
        told.push(event.kind);
    }
    assert!(
        matches!(told[0], EventKind::Disconnected { .. }),
        "{told:?}"
    );
    assert_eq!(told[1..], [EventKind::Removed]);
}

/// Lends its acceptor to each stream until the test takes it away.
struct Lender(Arc<Mutex<Option<Acceptor>>>);

#[tonic::async_trait]
impl Worker for Lender {
    type ControlStream = SessionStream<Reply>;

    async fn control(
        &self,
        request: Request<Streaming<Command>>,
    ) -> Result<Response<Self::ControlStream>, Status> {
        let acceptor = self.0.lock().unwrap().clone();
        let acceptor = acceptor.ok_or_else(|| Status::unavailable("no acceptor is left"))?;
        let handler = |mut session: crate::real::WorkerSession| async move {
            while session.recv().await.is_some() {}
        };
        acceptor.serve(request, handler).await
    }

    async fn apply(&self, _: Request<Command>) -> Result<Response<Reply>, Status> {
        Err(Status::unimplemented("streams only"))
    }
}

#[tokio::test]
async fn the_last_acceptor_that_goes_ends_its_session() {
    let acceptor = Arc::new(Mutex::new(Some(Acceptor::new("w1", 1, 0))));
    let host = Host::start(Lender(Arc::clone(&acceptor)));
    let (pool, mut events) = crate::real::pool(1);
    pool.insert("w1", host.endpoint());
    connected(&mut events).await;
    drop(acceptor.lock().unwrap().take());
    let (_, reason) = disconnected(&mut events).await;
    assert!(reason.contains("acceptor was closed"), "{reason}");
    let text = failed_attempt(&mut events).await;
    assert!(text.contains("no acceptor is left"), "{text}");
}
