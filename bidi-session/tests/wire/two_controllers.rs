//! Controllers of which one is deposed and does not know, or claims too much.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use std::time::Duration;

use bidi_session::tonic::Acceptor;
use bidi_session::{EventKind, Events, Phase, Pool, PoolConfig};
use tokio::sync::{Semaphore, mpsc};
use tokio::task::JoinSet;
use tokio::time::{Instant, timeout};

use super::raw::{call, header, hello, word};
use super::real::{
    AT_ONCE, Connect, Host, LONG, Node, WorkerSession, barrier, command, connect, connected,
    disconnected, endpoint, failed_attempt, next, pool, soon,
};

/// A worker whose handlers go on after the end of their session, until they are let go.
fn stubborn() -> (Node, mpsc::Receiver<u64>, Arc<Semaphore>) {
    let (started, starts) = mpsc::channel(16);
    let release = Arc::new(Semaphore::new(0));
    let let_go = release.clone();
    let node = Node::new(Acceptor::new("w1", 1, 0), move |session: WorkerSession| {
        let (started, let_go) = (started.clone(), let_go.clone());
        async move {
            started
                .send(session.term())
                .await
                .expect("the test listens");
            session.sender().over().await;
            let _gone = let_go.acquire().await.expect("open");
        }
    });
    (node, starts, release)
}

async fn higher_term(events: &mut Events<Connect>) -> u64 {
    match next(events).await.kind {
        EventKind::HigherTerm { term, .. } => term,
        kind => panic!("no higher term: {kind:?}"),
    }
}

#[tokio::test]
async fn a_lower_term_is_refused_while_a_higher_one_waits_and_after_it_left() {
    let (node, mut starts, release) = stubborn();
    let host = Host::start(node);
    let (old, mut old_events) = pool(5);
    old.insert("w1", host.endpoint());
    connected(&mut old_events).await;
    assert_eq!(soon(starts.recv()).await, Some(5));
    let (new, mut new_events) = pool(6);
    new.insert("w1", host.endpoint());
    // The higher one has arrived, and waits for the handler of the lower one.
    disconnected(&mut old_events).await;
    assert_eq!(higher_term(&mut old_events).await, 6);
    let (oldest, mut oldest_events) = pool(4);
    oldest.insert("w1", host.endpoint());
    assert_eq!(higher_term(&mut oldest_events).await, 6);
    assert!(starts.try_recv().is_err(), "it must wait");
    release.add_permits(16);
    connected(&mut new_events).await;
    assert_eq!(soon(starts.recv()).await, Some(6));
    assert_eq!(higher_term(&mut old_events).await, 6);
    new.remove("w1");
    disconnected(&mut new_events).await;
    // Told of after the session of the higher term was over.
    assert_eq!(higher_term(&mut oldest_events).await, 6);
    assert_eq!(higher_term(&mut old_events).await, 6);
    assert!(starts.try_recv().is_err());
}

#[tokio::test]
async fn a_stream_that_waits_gives_way_to_a_newer_one() {
    let (node, mut starts, release) = stubborn();
    let host = Host::start(node);
    let _held = call(host.address, &hello(5, 1, 1)).await.expect("admitted");
    assert_eq!(soon(starts.recv()).await, Some(5));
    // Each waits until the next one arrives.
    let address = host.address;
    let wait = |headers| tokio::spawn(async move { call(address, &headers).await });
    let mut waiting = wait(hello(5, 1, 2));
    for (newer, expected) in [
        (hello(5, 1, 3), "stale-generation"),
        (hello(6, 2, 1), "lower-term"),
        (hello(6, 2, 2), "stale-generation"),
    ] {
        let newer = wait_behind(&mut waiting, || wait(newer.clone())).await;
        let refused = soon(std::mem::replace(&mut waiting, newer))
            .await
            .expect("it ends");
        let Err(status) = refused else {
            panic!("the older one has a session");
        };
        assert_eq!(word(&status), expected);
        let highest = header(&status, "bidi-session-highest");
        assert_eq!(highest.is_some(), expected == "lower-term");
    }
    // Whoever waits and goes leaves its place to others of its term.
    waiting.abort();
    let mut generation = 0;
    let mut last = loop {
        generation += 1;
        let mut last = wait(hello(6, 3, generation));
        let Ok(refused) = timeout(Duration::from_millis(200), &mut last).await else {
            break last;
        };
        let Err(status) = refused.expect("it ends") else {
            panic!("it must wait");
        };
        assert_eq!(word(&status), "term-taken");
    };
    assert!(!last.is_finished());
    release.add_permits(16);
    let _line = soon(&mut last).await.expect("it ends").expect("admitted");
    assert_eq!(soon(starts.recv()).await, Some(6));
    assert!(
        starts.try_recv().is_err(),
        "none of the others had a session"
    );
}

/// Starts the newer one once the older one has arrived, of which nothing tells: a stream
/// that waits is silent. One that is overtaken on its way is refused in the same words.
async fn wait_behind<T>(
    older: &mut tokio::task::JoinHandle<T>,
    newer: impl FnOnce() -> tokio::task::JoinHandle<T>,
) -> tokio::task::JoinHandle<T> {
    tokio::time::sleep(Duration::from_millis(100)).await;
    assert!(!older.is_finished(), "it must wait");
    newer()
}

#[tokio::test]
async fn a_higher_term_is_told_at_once_and_slows_that_worker_alone() {
    let host = Host::start(Node::echo("w0", 1));
    let (leader, mut events) = Pool::new(connect(), PoolConfig::new(4));
    leader.insert("w0", host.endpoint());
    connected(&mut events).await;
    for number in 1..20 {
        let name = format!("w{number}");
        leader.insert(&*name, endpoint(host.also(Node::echo(&name, 1))));
        connected(&mut events).await;
    }
    let foreign = Node::new(Acceptor::new("ahead", 1, 5), super::real::echo);
    let address = host.also(foreign.clone());
    let start = Instant::now();
    leader.insert("ahead", endpoint(address));
    assert_eq!(higher_term(&mut events).await, 5);
    let waited = start.elapsed();
    println!("told of the higher term after {waited:?} (goal: a round trip and 50 ms)");
    assert!(waited < AT_ONCE);
    let state = leader.state("ahead").expect("in the pool");
    assert_eq!(state.phase, Phase::Blocked);
    let retry_in = state.retry_in.expect("it is retried");
    assert!(retry_in > Duration::from_secs(4), "{retry_in:?}");
    assert_eq!(foreign.calls(), 1);
    let all: Vec<_> = (0..20).map(|number| format!("w{number}")).collect();
    let round = leader.inject(1, &all, |_| barrier(1)).expect("all are up");
    assert_eq!(
        soon(round.collect(LONG)).await.expect("all answer").len(),
        20
    );
}

#[tokio::test]
async fn a_worker_that_claims_the_highest_term_of_all_stops_nobody_else() {
    let (first, second) = (
        Host::start(Node::echo("w1", 1)),
        Host::start(Node::echo("w2", 1)),
    );
    let liar = Host::start(Node::new(
        Acceptor::new("w3", 1, u64::MAX),
        super::real::echo,
    ));
    for term in [5, 6] {
        let (leader, mut events) = pool(term);
        leader.insert("w3", liar.endpoint());
        assert_eq!(higher_term(&mut events).await, u64::MAX);
        leader.insert("w1", first.endpoint());
        leader.insert("w2", second.endpoint());
        leader
            .ready(["w1", "w2"], LONG)
            .await
            .expect("they are well");
        for id in 1..=10 {
            let round = leader.inject(id, ["w1", "w2"], |_| barrier(id));
            let replies = soon(round.expect("both are up").collect(LONG)).await;
            assert_eq!(replies.expect("both answer").len(), 2);
        }
        assert!(leader.ready(["w3"], Duration::ZERO).await.is_err());
    }
    let (last, mut events) = pool(u64::MAX);
    last.insert("w3", liar.endpoint());
    connected(&mut events).await;
}

/// What one worker has seen.
#[derive(Default)]
struct Witness {
    term: AtomicU64,
    heard: AtomicU32,
    violations: AtomicU32,
}

fn watched(name: &str, witness: Arc<Witness>) -> Node {
    Node::new(
        Acceptor::new(name, 1, 0),
        move |mut session: WorkerSession| {
            let witness = witness.clone();
            async move {
                witness.term.fetch_max(session.term(), Ordering::SeqCst);
                while session.recv().await.is_some() {
                    witness.heard.fetch_add(1, Ordering::SeqCst);
                    if session.term() < witness.term.load(Ordering::SeqCst) {
                        witness.violations.fetch_add(1, Ordering::SeqCst);
                    }
                }
            }
        },
    )
}

/// Sends to every worker for as long as it lives.
async fn flood(pool: Pool<Connect>, names: Vec<String>) {
    loop {
        for name in &names {
            let _ = pool.try_send(name, command("old"));
        }
        tokio::time::sleep(Duration::from_millis(1)).await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_new_leadership_has_every_worker_and_no_older_message_passes_afterwards() {
    let names: Vec<String> = (0..100).map(|number| format!("w{number}")).collect();
    let witnesses: Vec<Arc<Witness>> = names.iter().map(|_| Arc::default()).collect();
    let host = Host::start(watched(&names[0], witnesses[0].clone()));
    let mut places = vec![host.address];
    for (name, witness) in names.iter().zip(&witnesses).skip(1) {
        places.push(host.also(watched(name, witness.clone())));
    }
    let insert_all = |pool: &Pool<Connect>| {
        for (name, place) in names.iter().zip(&places) {
            pool.insert(&**name, endpoint(*place));
        }
    };
    let (old, _old_events) = pool(5);
    insert_all(&old);
    old.ready(&names, LONG).await.expect("all get up");
    let mut flooding = JoinSet::new();
    flooding.spawn(flood(old.clone(), names.clone()));
    let heard = |witness: &Arc<Witness>| witness.heard.load(Ordering::SeqCst) > 0;
    while !witnesses.iter().all(heard) {
        tokio::time::sleep(Duration::from_millis(1)).await;
    }
    let (new, _new_events) = pool(6);
    let start = Instant::now();
    insert_all(&new);
    new.ready(&names, LONG).await.expect("all get up");
    let waited = start.elapsed();
    println!("100 workers up at the new term after {waited:?} (goal: 1 s)");
    assert!(waited < AT_ONCE, "{waited:?}");
    // The old one goes on for a while, and gets nowhere.
    let before: u32 = witnesses
        .iter()
        .map(|witness| witness.heard.load(Ordering::SeqCst))
        .sum();
    tokio::time::sleep(Duration::from_millis(300)).await;
    let after: u32 = witnesses
        .iter()
        .map(|witness| witness.heard.load(Ordering::SeqCst))
        .sum();
    assert_eq!(
        before, after,
        "of the old term only, since the new one sends nothing"
    );
    for witness in &witnesses {
        assert_eq!(witness.term.load(Ordering::SeqCst), 6);
        assert_eq!(witness.violations.load(Ordering::SeqCst), 0);
    }
    println!("CASE new-leadership fault={before}");
}

#[tokio::test]
async fn two_pools_of_one_term_do_not_take_turns() {
    let node = Node::echo("w1", 1);
    let host = Host::start(node.clone());
    let (first, mut events) = pool(5);
    first.insert("w1", host.endpoint());
    let (generation, _) = connected(&mut events).await;
    let (second, mut second_events) = pool(5);
    second.insert("w1", host.endpoint());
    while node.calls() < 6 {
        let text = failed_attempt(&mut second_events).await;
        assert!(text.contains("another pool of the same term"), "{text}");
    }
    assert_eq!(
        first.state("w1").expect("in the pool").session(),
        Some(generation)
    );
    let told = timeout(Duration::ZERO, events.recv()).await;
    assert!(told.is_err(), "{told:?}");
    println!("CASE equal-term fault={}", node.calls() - 1);
}
