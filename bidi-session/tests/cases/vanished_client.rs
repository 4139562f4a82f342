//! Pools whose process dies, stops or is cut off: their workers must notice.

use std::net::SocketAddr;
use std::time::Duration;

use bidi_session::tonic::{Acceptor, FaultProxy, Flow};
use tokio::sync::mpsc;
use tokio::task::JoinSet;

use super::child::{Child, Part};
use super::real::{Host, Node, WorkerSession, answer, soon};
use super::time::{DETECTION, Watch, size};

const KILLED: usize = 10;
const STOPPED: usize = 5;
const CUT_OFF: usize = 5;

/// Twenty workers, of which each tells its session's end.
struct Workers {
    host: Host,
    addresses: Vec<SocketAddr>,
    ends: mpsc::Receiver<usize>,
}

// ===== impl Workers =====

impl Workers {
    fn start(count: usize) -> Self {
        let (ended, ends) = mpsc::channel(count * 2);
        let node = |index: usize| {
            let ended = ended.clone();
            let handler = move |mut session: WorkerSession| {
                let ended = ended.clone();
                async move {
                    while let Some(command) = session.recv().await {
                        drop(session.send(answer(command)).await);
                    }
                    ended.send(index).await.unwrap();
                }
            };
            Node::new(Acceptor::new(format!("w{index}"), 1, 0), handler)
        };
        let host = Host::start(node(0));
        let mut addresses = vec![host.address];
        addresses.extend((1..count).map(|index| host.also(node(index))));
        Self {
            host,
            addresses,
            ends,
        }
    }

    /// Waits for the ends of these sessions and of no other.
    async fn ended(&mut self, mut expected: Vec<usize>) {
        while !expected.is_empty() {
            let ended = soon(self.ends.recv()).await.unwrap();
            let place = expected.iter().position(|index| *index == ended);
            expected.swap_remove(place.expect("this session lives, or ended before"));
        }
    }
}

async fn pool_of(index: usize, address: SocketAddr) -> Child {
    let mut child = Child::start(Part::Pool, &[(&format!("w{index}"), address)]);
    child.lines(1, " up").await;
    child
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn s05_a_client_that_dies_without_a_word_is_noticed_and_leaves_nothing() {
    let mut workers = Workers::start(KILLED + STOPPED + CUT_OFF);
    let base = workers.host.tasks();
    let killed = 0..KILLED;
    let stopped = KILLED..KILLED + STOPPED;
    let cut_off = KILLED + STOPPED..KILLED + STOPPED + CUT_OFF;
    let proxies: Vec<FaultProxy> = workers.addresses[cut_off.clone()]
        .iter()
        .map(|address| FaultProxy::start(*address).unwrap())
        .collect();
    let mut places = workers.addresses.clone();
    for (place, proxy) in cut_off.clone().zip(&proxies) {
        places[place] = proxy.address();
    }
    let mut starting = JoinSet::new();
    for (index, address) in places.into_iter().enumerate() {
        starting.spawn(async move { (index, pool_of(index, address).await) });
    }
    let mut clients = starting.join_all().await;
    clients.sort_by_key(|(index, _)| *index);
    assert!(workers.host.tasks() > base);
    let mut clients: Vec<Child> = clients.into_iter().map(|(_, child)| child).collect();

    let silent = Watch::start();
    for proxy in &proxies {
        proxy.set_both(Flow::Swallow);
        // Nor does a dead network let new connections through.
        proxy.set_refusing(true).unwrap();
    }
    for client in &clients[stopped.clone()] {
        client.stop().await;
    }
    let died = Watch::start();
    let mut faults = 0;
    for client in clients.drain(killed.clone()) {
        faults += usize::from(client.kill().await == 9);
    }
    workers.ended(killed.collect()).await;
    let noticed = died.within(Duration::from_secs(1), "to notice those that died");
    workers.ended(stopped.chain(cut_off).collect()).await;
    let found = silent.within(DETECTION, "to notice those that are silent");
    // Those that died are gone; the others are as they were.
    faults += clients
        .iter()
        .filter(|client| client.state() == 'T')
        .count();
    faults += proxies
        .iter()
        .filter(|proxy| proxy.counts().to_client.swallowed > 0)
        .count();
    assert_eq!(faults, KILLED + STOPPED + CUT_OFF);
    // Before a stopped one can come back.
    drop(clients);
    soon(async {
        while workers.host.tasks() > base {
            tokio::task::yield_now().await;
        }
    })
    .await;
    assert!(workers.ends.try_recv().is_err(), "a session ended twice");
    println!("S05: died {noticed:.2?}, silent {found:.1?}");
    println!("CASE S05 fault={faults}");
}

/// The pool's own process stands still, with healthy workers.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_pause_shorter_than_detection_costs_nothing_and_a_longer_one_a_session_each() {
    let short = short_pauses(size(3, 100));
    let ((), ()) = tokio::join!(short, long_pause());
}

const WORKERS: usize = 20;

async fn pool_of_all(workers: &Workers) -> Child {
    let names: Vec<String> = (0..WORKERS).map(|index| format!("w{index}")).collect();
    let places: Vec<(&str, SocketAddr)> = names
        .iter()
        .map(String::as_str)
        .zip(workers.addresses.iter().copied())
        .collect();
    let mut pool = Child::start(Part::Pool, &places);
    pool.lines(WORKERS, " up").await;
    pool
}

async fn short_pauses(count: u32) {
    let mut workers = Workers::start(WORKERS);
    let mut pool = pool_of_all(&workers).await;
    let mut paused = 0;
    for run in 0..count {
        // At another point between two pings each time.
        tokio::time::sleep(Duration::from_millis(u64::from(run * 180 % 1250))).await;
        pool.stop().await;
        tokio::time::sleep(Duration::from_secs(4)).await;
        paused += u32::from(pool.state() == 'T');
        pool.go_on().await;
        // Told after all that happened before.
        pool.tell("round").await;
        assert_eq!(pool.line().await, format!("round {WORKERS}"));
    }
    assert!(workers.ends.try_recv().is_err(), "a worker lost its pool");
    assert_eq!(paused, count);
    println!("CASE paused-4s fault={paused}");
}

async fn long_pause() {
    let mut workers = Workers::start(WORKERS);
    let mut pool = pool_of_all(&workers).await;
    pool.stop().await;
    let paused = Watch::start();
    workers.ended((0..WORKERS).collect()).await;
    paused.within(DETECTION, "the workers to notice");
    tokio::time::sleep(Duration::from_secs(15).saturating_sub(paused.elapsed())).await;
    let stopped = usize::from(pool.state() == 'T');
    pool.go_on().await;
    let awake = Watch::start();
    let lines = pool.lines(WORKERS, " up").await;
    // The first step: at once after a healthy session, or 100 ms later.
    let back = awake.within(Duration::from_secs(1), "to be up again");
    pool.tell("round").await;
    let mut downs: Vec<String> = lines;
    downs.extend(pool.lines(1, &format!("round {WORKERS}")).await);
    downs.retain(|line| line.contains(" down "));
    let mut names: Vec<&str> = downs
        .iter()
        .filter_map(|line| line.split(' ').next())
        .collect();
    names.sort_unstable();
    names.dedup();
    assert_eq!((names.len(), downs.len()), (WORKERS, WORKERS), "{downs:?}");
    println!(
        "paused 15 s: all {WORKERS} up again after {back:.2?}: {}",
        downs[0]
    );
    println!("CASE paused-15s fault={stopped}");
    assert_eq!(stopped, 1);
}
