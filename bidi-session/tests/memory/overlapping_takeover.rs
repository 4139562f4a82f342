//! Takeovers: of a session whose controller is gone without a word, of handlers that
//! hang, and by terms that nobody can top.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

use bidi_session::memory::{Acceptor, Network};
use bidi_session::{Event, EventKind, Phase};
use tokio::time::Instant;

use crate::rig::{LONG, WorkerSession, echo, millis, next, note, pool, serve_echo, told, up};

/// How a handler ends after its session.
#[derive(Clone, Copy)]
enum Leaving {
    AtOnce,
    After(u64),
    Never,
}

/// Counts the handlers that live, and the most at one time.
#[derive(Clone, Default)]
struct Live {
    now: Arc<AtomicU32>,
    most: Arc<AtomicU32>,
}

struct Alive(Live);

impl Live {
    fn enter(&self) -> Alive {
        let now = self.now.fetch_add(1, Ordering::SeqCst) + 1;
        self.most.fetch_max(now, Ordering::SeqCst);
        Alive(self.clone())
    }
}

impl Drop for Alive {
    fn drop(&mut self) {
        self.0.now.fetch_sub(1, Ordering::SeqCst);
    }
}

/// Serves one worker at two addresses.
fn serve(network: &Network, leaving: Leaving, live: &Live) {
    let acceptor = Acceptor::new("a", 1, 0);
    for address in ["old", "new"] {
        let live = live.clone();
        network.serve(address, acceptor.clone(), move |session: WorkerSession| {
            let live = live.clone();
            async move {
                let _alive = live.enter();
                echo(session).await;
                match leaving {
                    Leaving::AtOnce => {}
                    Leaving::After(wait) => tokio::time::sleep(millis(wait)).await,
                    Leaving::Never => std::future::pending().await,
                }
            }
        });
    }
}

#[tokio::test(start_paused = true)]
async fn a_half_open_session_is_taken_over_without_overlap_in_1_000_runs() {
    let mut random = fastrand::Rng::with_seed(1);
    let (mut silent, mut slowest) = (0, millis(0));
    for run in 0..1_000_u64 {
        let leaving = match run % 3 {
            0 => Leaving::AtOnce,
            1 => Leaving::After(random.u64(..6_000)),
            _ => Leaving::Never,
        };
        let (network, live) = (Network::new(run), Live::default());
        serve(&network, leaving, &live);
        let (pool, mut events) = pool(&network, 1);
        pool.insert("a", "old".to_owned());
        assert_eq!(told(&mut events).await, "a connected");
        tokio::time::sleep(millis(random.u64(..3_000))).await;
        network.cut("old");
        let start = Instant::now();
        pool.insert("a", "new".to_owned());
        assert_eq!(
            told(&mut events).await,
            "a lost: the worker has another target"
        );
        assert_eq!(told(&mut events).await, "a connected");
        slowest = slowest.max(start.elapsed());
        assert_eq!(live.now.load(Ordering::SeqCst), 1);
        assert_eq!(
            live.most.load(Ordering::SeqCst),
            1,
            "run {run}: they overlap"
        );
        pool.try_send("a", note(1)).unwrap();
        assert_eq!(told(&mut events).await, "a said 1");
        silent += network.counts("old").reads_held;
    }
    assert!(silent > 0, "the cut never struck");
    // Attempts are at least 100 ms apart; the second one may come that much later.
    assert!(slowest <= millis(5_000) + millis(102), "{slowest:?}");
    assert!(
        slowest >= millis(4_990),
        "a handler that hangs has its 5 s: {slowest:?}"
    );
}

#[tokio::test(start_paused = true)]
async fn a_worker_that_has_seen_the_highest_term_of_all_stops_no_leader_of_others() {
    let (network, pool, mut events) = up(&["a", "b"]).await;
    network.serve("liar", Acceptor::new("liar", 1, u64::MAX), echo);
    pool.insert("liar", "liar".to_owned());
    let is_claim =
        |event: &Event<_>| matches!(event.kind, EventKind::HigherTerm { term: u64::MAX });
    while !is_claim(&next(&mut events).await) {}
    assert_eq!(pool.state("liar").unwrap().phase, Phase::Blocked);
    for id in 1..100 {
        let word = |_: &_| crate::rig::barrier(id);
        let round = pool.inject(id, ["a", "b"], word).unwrap();
        assert_eq!(round.collect(LONG).await.unwrap().len(), 2);
        tokio::time::sleep(millis(1_000)).await;
    }
    // Tried slowly, never for nothing, never given up.
    let dials = network.counts("liar").dials;
    assert!((9..=11).contains(&dials), "{dials}");
    for worker in ["a", "b"] {
        assert_eq!(network.counts(worker).dials, 1);
    }
}

#[tokio::test(start_paused = true)]
async fn a_controller_that_claims_the_highest_term_takes_that_worker_only() {
    let (network, rightful, mut events) = up(&["a", "b"]).await;
    let (usurper, mut told_usurper) = pool(&network, u64::MAX);
    usurper.insert("a", "a".to_owned());
    assert_eq!(told(&mut told_usurper).await, "a connected");
    while told(&mut events).await != "a lost: a newer session took over" {}
    let higher = format!("a saw term {}", u64::MAX);
    while told(&mut events).await != higher {}
    let round = rightful
        .inject(1, ["b"], |_| crate::rig::barrier(1))
        .unwrap();
    assert_eq!(round.collect(LONG).await.unwrap().len(), 1);
    // The way out is the worker's restart.
    drop(usurper);
    serve_echo(&network, "a", 2);
    rightful.ready(["a"], millis(10_100)).await.unwrap();
}
