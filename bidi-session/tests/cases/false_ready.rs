//! States that say ready of a worker that is not.

use std::collections::HashMap;
use std::net::SocketAddr;
use std::time::Duration;

use bidi_session::tonic::{FaultProxy, Flow, Way};
use bidi_session::{EventKind, Events, Pool, SendErrorKind};

use super::child::{Child, Part};
use super::real::{
    Connect, Host, LONG, Node, Reply, command, connected, disconnected, endpoint, next, note, pool,
    soon,
};
use super::time::{AT_ONCE, Watch, size};

const LIVE: [&str; 3] = ["w1", "w2", "w3"];

/// What the owner sees, in order.
#[derive(Default)]
struct Log {
    // The worker's sessions, each with what was sent and came back, and whether it ended.
    sessions: HashMap<(String, u64), Session>,
}

#[derive(Default)]
struct Session {
    is_told: bool,
    sent: u32,
    answered: u32,
    was_refused: bool,
    is_over: bool,
}

// ===== impl Log =====

impl Log {
    fn session(&mut self, worker: &str, generation: u64) -> &mut Session {
        let key = (worker.to_owned(), generation);
        self.sessions.entry(key).or_default()
    }

    fn take_in(&mut self, event: bidi_session::Event<Reply>) {
        let session = self.session(event.worker.as_str(), event.generation);
        match event.kind {
            EventKind::Connected { .. } => session.is_told = true,
            EventKind::Message(reply) => {
                assert_eq!(
                    reply,
                    note(event.generation.to_string()),
                    "another session's"
                );
                session.answered += 1;
            }
            EventKind::Disconnected { .. } => session.is_over = true,
            _ => {}
        }
    }

    /// Whether each session explains what became of what was sent.
    fn is_settled(&self) -> bool {
        let explains = |session: &Session| {
            session.is_told && (session.is_over || session.answered == session.sent)
        };
        let refusals = |session: &Session| !session.was_refused || session.is_over;
        self.sessions
            .values()
            .filter(|session| session.sent > 0 || session.was_refused)
            .all(|session| explains(session) && refusals(session))
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn s12_a_worker_is_ready_after_its_handshake_and_until_its_end_is_told() {
    let seed = fastrand::u64(..);
    println!("seed {seed}");
    let mut random = fastrand::Rng::with_seed(seed);
    let (pool, mut events) = pool(1);
    // Its answers are held, so that its handshake cannot finish.
    let slow = Host::start(Node::echo("slow", 1));
    let held = FaultProxy::start(slow.address).unwrap();
    held.set(Way::ToClient, Flow::Hold);
    pool.insert("slow", endpoint(held.address()));
    let absent = FaultProxy::start(slow.address).unwrap();
    absent.set_refusing(true).unwrap();
    pool.insert("absent", endpoint(absent.address()));
    let mut proxies = Vec::new();
    let mut children = Vec::new();
    for name in LIVE {
        let (child, address) = worker(name).await;
        let proxy = FaultProxy::start(address).unwrap();
        pool.insert(name, endpoint(proxy.address()));
        proxies.push(proxy);
        children.push(child);
    }
    pool.ready(LIVE, LONG).await.unwrap();

    let end = size(Duration::from_secs(5), Duration::from_secs(60));
    let watch = Watch::start();
    let killing = async {
        let mut killed = 0;
        while watch.elapsed() < end {
            tokio::time::sleep(Duration::from_millis(random.u64(50..400))).await;
            let place = random.usize(..LIVE.len());
            let (child, address) = worker(LIVE[place]).await;
            let victim = std::mem::replace(&mut children[place], child);
            killed += u32::from(victim.kill().await == 9);
            proxies[place].set_target(address);
        }
        killed
    };
    let (killed, mut log) = tokio::join!(killing, watch_and_send(&pool, &mut events, &watch, end));
    let settling = async {
        while !log.is_settled() {
            log.take_in(events.recv().await.unwrap());
        }
    };
    tokio::time::timeout(LONG, settling).await.unwrap();
    let refused = log
        .sessions
        .values()
        .filter(|session| session.was_refused)
        .count();
    let sent: u32 = log.sessions.values().map(|session| session.sent).sum();
    let told = log
        .sessions
        .values()
        .filter(|session| session.is_told)
        .count();
    println!("S12: {sent} sent over {told} sessions, {refused} refused");
    assert!(killed > 0 && held.counts().to_client.held > 0);
    // What was held is let go, and the worker is ready after all.
    held.set(Way::ToClient, Flow::Pass);
    pool.ready(["slow"], LONG).await.unwrap();
    println!("CASE S12 fault={killed}");
}

async fn worker(name: &str) -> (Child, SocketAddr) {
    let any = SocketAddr::from(([127, 0, 0, 1], 0));
    let mut child = Child::start(Part::Workers, &[(name, any)]);
    let address = child.addresses(1).await[0];
    (child, address)
}

/// Sends to a worker that is ready, every 10 ms.
async fn watch_and_send(
    pool: &Pool<Connect>,
    events: &mut Events<Connect>,
    watch: &Watch,
    end: Duration,
) -> Log {
    let mut log = Log::default();
    let mut ticks = tokio::time::interval(Duration::from_millis(10));
    while watch.elapsed() < end {
        tokio::select! {
            _ = ticks.tick() => {}
            event = events.recv() => {
                log.take_in(event.unwrap());
                continue;
            }
        }
        for dead in ["slow", "absent"] {
            assert_eq!(pool.state(dead).unwrap().session(), None, "{dead} is ready");
        }
        let name = LIVE[fastrand::usize(..LIVE.len())];
        let Some(generation) = pool.state(name).unwrap().session() else {
            continue;
        };
        let session = log.session(name, generation);
        match pool.try_send(name, command(generation.to_string())) {
            Ok(()) => session.sent += 1,
            // Then it broke after its state was read.
            Err(error) if error.kind == SendErrorKind::NotConnected => session.was_refused = true,
            Err(error) => panic!("{error}"),
        }
    }
    log
}

#[tokio::test]
async fn s13_a_worker_without_work_whose_stream_broke_is_ready_again_by_itself() {
    let (pool, mut events) = pool(1);
    let mut children = Vec::new();
    let mut proxies = Vec::new();
    for name in LIVE {
        let (child, address) = worker(name).await;
        let proxy = FaultProxy::start(address).unwrap();
        pool.insert(name, endpoint(proxy.address()));
        let (_, incarnation) = connected(&mut events).await;
        assert_eq!(incarnation, Some(child.id().into()));
        children.push(child);
        proxies.push(proxy);
    }
    let idle = children.pop().unwrap();
    let first = pool.state("w3").unwrap().session().unwrap();
    let killed = usize::from(idle.kill().await == 9);
    let watch = Watch::start();
    let (ended, reason) = disconnected(&mut events).await;
    watch.within(AT_ONCE, "to hear of the death");
    assert_eq!(ended, first);
    assert!(!reason.is_empty());
    let (again, address) = worker("w3").await;
    proxies[2].set_target(address);
    let watch = Watch::start();
    let (second, incarnation) = connected(&mut events).await;
    // The longest delay of this pool, and a handshake.
    let back = watch.within(Duration::from_millis(300), "to be ready again");
    assert!(second > first);
    assert_eq!(
        incarnation,
        Some(again.id().into()),
        "the new life shows itself"
    );
    pool.try_send("w3", command("hello")).unwrap();
    let event = soon(next(&mut events)).await;
    assert_eq!(event.kind, EventKind::Message(note("hello")));
    drop(again);
    println!("S13: ready {back:.2?} after the restart");
    println!("CASE S13 fault={killed}");
}
