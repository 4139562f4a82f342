//! Links and peers that die without a word, both ways and one way, idle and in full flow.

use std::net::SocketAddr;
use std::time::Duration;

use bidi_session::tonic::{Acceptor, FaultProxy, Flow, Way};
use bidi_session::{EventKind, PoolConfig};
use tokio::task::JoinSet;

use super::child::{Child, Part};
use super::namespace::{Cut, Network, WORKER};
use super::real::{
    Host, LONG, Node, command, connected, disconnected, endpoint, note, pool_with, soon,
};
use super::time::{DETECTION, Watch, size};

static BIG: [u8; 64 * 1024] = [7; 64 * 1024];

/// Before this nothing can have been missed: a ping is sent after 5 s and waited for 5 s,
/// counted from the last byte before the cut.
const SOONEST: Duration = Duration::from_secs(4);

/// The ways that lose bytes, and whether both sides send all they can.
struct Loss {
    lost: &'static [Way],
    is_full: bool,
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn s06_an_idle_connection_that_goes_dead_is_told_on_both_sides() {
    const BOTH: &[Way] = &[Way::ToTarget, Way::ToClient];
    let mut losses = JoinSet::new();
    for is_full in [false, true] {
        for lost in [BOTH, &[Way::ToTarget], &[Way::ToClient]] {
            losses.spawn(lose(Loss { lost, is_full }));
        }
    }
    let swallowed = losses.join_all().await;
    assert!(swallowed.iter().all(|bytes| *bytes > 0), "{swallowed:?}");
    println!("CASE S06 fault={}", swallowed.iter().sum::<u64>());
}

/// Lets a session go dead and returns the bytes that got lost.
async fn lose(loss: Loss) -> u64 {
    let (node, mut sessions) = Node::played(Acceptor::new("w1", 1, 0));
    let host = Host::start(node);
    let proxy = FaultProxy::start(host.address).unwrap();
    let (pool, mut events) =
        pool_with(PoolConfig::new(1).with_attempt_timeout(Duration::from_secs(1)));
    pool.insert("w1", endpoint(proxy.address()));
    let (generation, _) = connected(&mut events).await;
    let mut session = soon(sessions.recv()).await.unwrap();
    let healthy = tokio::time::timeout(
        size(Duration::from_secs(2), Duration::from_secs(60)),
        events.recv(),
    );
    assert!(healthy.await.is_err(), "nothing happens while bytes pass");
    let watch = Watch::start();
    for way in loss.lost {
        // Bytes that are not even read fill the sender's buffers.
        let flow = if loss.is_full {
            Flow::Stall
        } else {
            Flow::Swallow
        };
        proxy.set(*way, flow);
    }
    let sender = session.sender();
    if loss.is_full {
        while pool.try_send("w1", command(&BIG[..])).is_ok() {
            tokio::task::yield_now().await;
        }
        tokio::spawn(async move { while sender.send(note(&BIG[..])).await.is_ok() {} });
    }
    let mut stuck = 0;
    while loss.is_full && stuck < BIG.len() as u64 {
        stuck = queued(proxy.address().port()) + queued(host.address.port());
        tokio::task::yield_now().await;
    }
    let worker = async {
        while soon(session.recv()).await.is_some() {}
        watch.within(DETECTION, "the end of the worker's session")
    };
    let controller = async {
        loop {
            let event = soon(events.recv()).await.unwrap();
            if let EventKind::Disconnected { reason, .. } = event.kind {
                assert_eq!(event.generation, generation);
                break (watch.within(DETECTION, "the end in the pool"), reason);
            }
        }
    };
    let (told_worker, (told_pool, reason)) = tokio::join!(worker, controller);
    let Loss { lost, is_full } = loss;
    println!(
        "lost {lost:?}, full {is_full}: worker {told_worker:.1?}, pool {told_pool:.1?}: {reason}"
    );
    assert!(told_pool.max(told_worker) > SOONEST, "{reason}");
    proxy.set_both(Flow::Pass);
    let (again, _) = connected(&mut events).await;
    assert!(again > generation, "they meet again");
    let counts = proxy.counts();
    counts.to_target.swallowed + counts.to_client.swallowed + stuck
}

/// Returns the bytes in the queues of all sockets at a port, as the kernel tells them.
fn queued(port: u16) -> u64 {
    let table = std::fs::read_to_string("/proc/self/net/tcp").expect("this test needs Linux");
    let end = format!(":{port:04X}");
    let bytes = |line: &str| {
        let fields: Vec<&str> = line.split_whitespace().collect();
        if !fields[1].ends_with(&end) && !fields[2].ends_with(&end) {
            return 0;
        }
        let (sent, received) = fields[4].split_once(':').unwrap();
        [sent, received]
            .iter()
            .map(|queue| u64::from_str_radix(queue, 16).unwrap())
            .sum()
    };
    table.lines().skip(1).map(bytes).sum()
}

/// Kernels that answer nothing, and one that answers for a process that is stopped.
///
/// All at the same time: each takes as long as detection does.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_cut_cable_or_a_stopped_worker_is_told_within_11_s_idle_and_in_full_flow() {
    let mut cuts = JoinSet::new();
    for (name, cut) in [("2", Cut::Both), ("w", Cut::ToWorker), ("p", Cut::ToPool)] {
        cuts.spawn(cut_cable(name, cut));
    }
    cuts.spawn(stop_worker());
    cuts.join_all().await;
}

async fn cut_cable(name: &str, cut: Cut) {
    let network = Network::new(name);
    let any = SocketAddr::new(WORKER, 0);
    let places = [("idle", any), ("full", any)];
    let mut workers = Child::start_in(Some(&network.worker), Part::Workers, &places);
    let addresses = workers.addresses(2).await;
    let places = [("idle", addresses[0]), ("full", addresses[1])];
    // The full one has a pool of its own, so that the idle one's is idle.
    let mut pools = [0, 1]
        .map(|place| Child::start_in(Some(&network.pool), Part::Pool, &places[place..=place]));
    for pool in &mut pools {
        pool.lines(1, " up").await;
    }
    workers.lines(2, " began").await;
    let before = network.vanished(cut);
    network.cut(cut);
    let watch = Watch::start();
    pools[1].tell("flood").await;
    workers.tell("flood").await;
    let workers = async {
        workers.lines(2, " over").await;
        watch.within(DETECTION, "the end of the workers' sessions")
    };
    let [idle, full] = &mut pools;
    let idle = async {
        let told = idle.lines(1, " down").await;
        (watch.within(DETECTION, "the end in the idle pool"), told)
    };
    let full = async {
        let told = full.lines(1, " down").await;
        assert!(told.contains(&"full full".to_owned()), "{told:?}");
        watch.within(DETECTION, "the end in the full pool")
    };
    let (workers, idle, full) = tokio::join!(workers, idle, full);
    let vanished = network.vanished(cut) - before;
    println!(
        "{cut:?}: workers {workers:.1?}, pool idle {:.1?}, pool full {full:.1?}",
        idle.0
    );
    println!("CASE half-open-cable-{cut:?} fault={vanished}");
    assert!(vanished > 0);
    assert!(idle.0 > SOONEST, "{:?}", idle.1);
}

/// The worker's sessions end as soon as it goes on.
async fn stop_worker() {
    let any = SocketAddr::from(([127, 0, 0, 1], 0));
    let mut workers = Child::start(Part::Workers, &[("idle", any), ("full", any)]);
    let addresses = workers.addresses(2).await;
    let (pool, mut events) = pool_with(PoolConfig::new(1).with_attempt_timeout(LONG));
    pool.insert("idle", endpoint(addresses[0]));
    pool.insert("full", endpoint(addresses[1]));
    pool.ready(["idle", "full"], LONG).await.unwrap();
    workers.lines(2, " began").await;
    workers.stop().await;
    let watch = Watch::start();
    let mut queued = 0;
    while pool.try_send("full", command(&BIG[..])).is_ok() {
        queued += 1;
        tokio::task::yield_now().await;
    }
    assert!(queued > 1, "{queued}");
    for _ in 0..2 {
        connected(&mut events).await;
    }
    for _ in 0..2 {
        disconnected(&mut events).await;
        watch.within(DETECTION, "the end in the pool");
    }
    assert_eq!(workers.state(), 'T');
    let stopped = usize::from(workers.state() == 'T');
    workers.go_on().await;
    let watch = Watch::start();
    workers.lines(2, " over").await;
    watch.within(
        Duration::from_secs(5),
        "the end of a session in a worker that goes on",
    );
    println!("CASE half-open-stopped-worker fault={stopped}");
}
