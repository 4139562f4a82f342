//! What short attempts, resets and endless durations did to a worker's door.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, mpsc};
use std::time::Duration;

use bidi_session::memory::{Acceptor, Network, Session};
use bidi_session::{Direction, Pool, PoolConfig};
use tokio::runtime::{Builder, Runtime};
use tokio::time::{sleep, timeout};

const fn secs(s: u64) -> Duration {
    Duration::from_secs(s)
}
fn ends(limit: Duration, f: impl FnOnce() + Send + 'static) -> bool {
    let (tx, rx) = mpsc::channel();
    std::thread::spawn(move || {
        f();
        let _ = tx.send(());
    });
    rx.recv_timeout(limit) != Err(mpsc::RecvTimeoutError::Timeout)
}
fn single() -> Runtime {
    Builder::new_current_thread().enable_all().build().unwrap()
}
async fn rest(mut s: Session<u64, i64>) {
    while s.recv().await.is_some() {}
}

/// An answer whose drop asks the acceptor.
struct Answer(Option<Acceptor>);
impl Drop for Answer {
    fn drop(&mut self) {
        self.0.as_ref().map(Acceptor::highest);
    }
}

#[tokio::test(start_paused = true)]
async fn a_worker_that_moves_is_dialed_while_others_are_silent() {
    let network = Network::new(1);
    for place in ["a", "b"] {
        network.serve(place, Acceptor::new("w", 1, 0), rest)
    }
    let (pool, _events) = Pool::new(
        network.connector::<u64, i64>(),
        PoolConfig::new(1).with_seed(1),
    );
    for i in 0..500_u32 {
        network.hang(&i.to_string());
        pool.insert(i, i.to_string())
    }
    sleep(secs(600)).await;
    for i in 0..240 {
        pool.insert("w", ["a", "b"][i % 2].to_owned());
        sleep(secs(30)).await
    }
    assert!(
        network.counts("a").dials + network.counts("b").dials > 0,
        "not dialed in two hours: {:?}",
        pool.state("w")
    );
}

#[tokio::test(start_paused = true)]
async fn sessions_do_not_overlap_after_a_reset() {
    let (network, acceptor) = (Network::new(1), Acceptor::new("w", 1, 0));
    let (running, most) = (Arc::new(AtomicUsize::new(0)), Arc::new(AtomicUsize::new(0)));
    let (r, m) = (running, most.clone());
    network.serve("w", acceptor.clone(), move |s: Session<u64, i64>| {
        let (r, m) = (r.clone(), m.clone());
        async move {
            m.fetch_max(r.fetch_add(1, Ordering::SeqCst) + 1, Ordering::SeqCst);
            rest(s).await;
            sleep(secs(3)).await; // winds up, within its 5 s
            r.fetch_sub(1, Ordering::SeqCst);
        }
    });
    let (pool, _events) = Pool::new(network.connector::<u64, i64>(), PoolConfig::new(1));
    pool.insert("w", "w".to_owned());
    pool.ready(["w"], secs(5)).await.unwrap();
    acceptor.reset("", 0);
    sleep(secs(20)).await;
    assert_eq!(most.load(Ordering::SeqCst), 1);
}

#[test]
fn a_queued_answer_s_drop_may_ask_the_acceptor() {
    assert!(ends(secs(3), || single().block_on(async {
        let (network, acceptor) = (Network::new(1), Acceptor::new("w", 1, 0));
        let a = acceptor.clone();
        network.serve("w", acceptor.clone(), move |s: Session<u64, Answer>| {
            let a = a.clone();
            async move {
                let _ = s.send(Answer(Some(a))).await;
                s.sender().over().await
            }
        });
        network.stall("w", Direction::FromWorker);
        let (pool, _events) = Pool::new(network.connector::<u64, Answer>(), PoolConfig::new(1));
        pool.insert("w", "w".to_owned());
        pool.ready(["w"], secs(2)).await.unwrap();
        sleep(Duration::from_millis(20)).await;
        acceptor.close();
    })));
}

#[test]
fn a_blocked_handler_is_overcome_by_short_attempts_too() {
    let rt = Builder::new_multi_thread()
        .worker_threads(4)
        .enable_all()
        .build()
        .unwrap();
    let ready = rt.block_on(async {
        let network = Network::new(1);
        network.serve(
            "w",
            Acceptor::new("w", 1, 0),
            |s: Session<u64, i64>| async move {
                let first = s.generation() == 1;
                rest(s).await;
                if first {
                    std::thread::sleep(secs(25))
                }
            },
        );
        let (pool, _events) = Pool::new(
            network.connector::<u64, i64>(),
            PoolConfig::new(1).with_attempt_timeout(secs(4)),
        );
        pool.insert("w", "w".to_owned());
        pool.ready(["w"], secs(5)).await.unwrap();
        network.reset("w");
        sleep(Duration::from_millis(50)).await;
        pool.ready(["w"], secs(15)).await
    });
    rt.shutdown_background();
    ready.unwrap();
}

#[tokio::test(start_paused = true)]
async fn a_network_without_keepalive_may_be_cut() {
    let network = Network::new(1).with_keepalive(Duration::MAX, secs(5));
    network.serve("w", Acceptor::new("w", 1, 0), rest);
    let (pool, mut events) = Pool::new(network.connector::<u64, i64>(), PoolConfig::new(1));
    pool.insert("w", "w".to_owned());
    let _connected = events.recv().await;
    network.cut("w");
    assert_eq!(timeout(secs(60), events.recv()).await.ok(), None);
}

#[tokio::test(start_paused = true)]
async fn a_delay_may_be_endless() {
    let network = Network::new(1);
    network.serve("w", Acceptor::new("w", 1, 0), rest);
    let (pool, mut events) = Pool::new(network.connector::<u64, i64>(), PoolConfig::new(1));
    pool.insert("w", "w".to_owned());
    let _connected = events.recv().await;
    sleep(secs(1)).await;
    network.delay("w", Direction::ToWorker, Duration::MAX..=Duration::MAX);
    pool.try_send("w", 1).unwrap();
    assert_eq!(timeout(secs(60), events.recv()).await.ok(), None);
}

#[tokio::test(start_paused = true)]
async fn an_owner_that_takes_nothing_does_not_hide_that_a_worker_is_done() {
    let network = Network::new(1);
    network.serve(
        "w",
        Acceptor::new("w", 1, 0),
        |s: Session<u64, i64>| async move {
            if s.generation() > 1 {
                return rest(s).await;
            }
            for _ in 0..400 {
                let _ = s.send(-1).await;
            }
        },
    );
    let (pool, _events) = Pool::new(network.connector::<u64, i64>(), PoolConfig::new(1));
    pool.insert("w", "w".to_owned());
    sleep(secs(60)).await;
    let state = pool.state("w").unwrap();
    assert!(
        state.generation > 1,
        "{state:?} {:?}",
        pool.try_send("w", 1)
    );
}
