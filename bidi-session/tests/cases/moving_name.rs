//! Names that resolve late, or elsewhere after a restart.

use std::io;
use std::net::{IpAddr, SocketAddr};
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use bidi_session::{EventKind, OpenClass, Phase, Pool, PoolConfig};
use tonic::transport::Endpoint;

use super::real::{
    Connect, Host, LONG, Node, barrier, connect, connected, disconnected, failed_attempt, soon,
};
use super::time::{Watch, size};

/// The longest delay between two attempts.
const STEP: Duration = Duration::from_millis(200);

/// A name service of one name.
#[derive(Clone, Default)]
struct Names {
    address: Arc<Mutex<Option<IpAddr>>>,
    asked: Arc<AtomicU32>,
    failed: Arc<AtomicU32>,
}

impl Names {
    fn map(&self, address: &str) {
        *self.address.lock().unwrap() = Some(address.parse().unwrap());
    }

    fn asked(&self) -> u32 {
        self.asked.load(Ordering::SeqCst)
    }

    fn connect(&self) -> Connect {
        let names = self.clone();
        connect().with_resolver(move |_, port| {
            names.asked.fetch_add(1, Ordering::SeqCst);
            let address = *names.address.lock().unwrap();
            let Some(address) = address else {
                names.failed.fetch_add(1, Ordering::SeqCst);
                return Err(io::Error::other("no such name"));
            };
            Ok(vec![SocketAddr::new(address, port)])
        })
    }
}

fn named(port: u16) -> Endpoint {
    Endpoint::from_shared(format!("http://worker-7.test:{port}")).unwrap()
}

fn quick() -> PoolConfig {
    PoolConfig::new(1)
        .with_backoff(Duration::from_millis(10), STEP)
        .with_blocked_retry(STEP)
}

#[tokio::test]
async fn s03_a_name_that_appears_late_is_found_within_one_step_and_delays_nobody() {
    let names = Names::default();
    let (pool, mut events) = Pool::new(names.connect(), quick());
    let live = Host::start(Node::echo("live", 1));
    pool.insert("live", live.endpoint());
    connected(&mut events).await;
    let late = Host::start(Node::echo("w7", 1));
    let watch = Watch::start();
    pool.insert("w7", named(late.address.port()));
    watch.within(Duration::from_millis(5), "an insertion");
    let absent = size(Duration::from_secs(2), Duration::from_secs(20));
    let mut epoch = 0;
    while watch.elapsed() < absent {
        let text = failed_attempt(&mut events).await;
        assert!(text.contains("worker-7.test"), "{text}");
        assert!(text.contains("no such name"), "{text}");
        let state = pool.state("w7").unwrap();
        assert_ne!(state.phase, Phase::Up);
        assert!(
            state
                .last_error
                .is_some_and(|error| error.contains("no such name"))
        );
        epoch += 1;
        let watch = Watch::start();
        let round = pool.inject(epoch, ["live"], |_| barrier(epoch)).unwrap();
        round.collect(LONG).await.unwrap();
        watch.within(Duration::from_millis(500), "a round of the others");
    }
    let before = names.asked();
    names.map("127.0.0.1");
    let watch = Watch::start();
    let (generation, _) = connected(&mut events).await;
    let found = watch.within(STEP + Duration::from_millis(100), "to find the name");
    assert!(names.asked() > before, "each attempt asks anew");
    assert_eq!(pool.state("w7").unwrap().session(), Some(generation));
    assert!(
        events.try_recv().is_none(),
        "one Connected and nothing else"
    );
    let failed = names.failed.load(Ordering::SeqCst);
    assert!(failed >= 3);
    println!("S03: found after {found:.2?}");
    println!("CASE S03 fault={failed}");
}

#[tokio::test]
async fn s04_a_name_that_moves_is_followed_and_a_squatter_is_refused() {
    let names = Names::default();
    names.map("127.0.0.2");
    let at = |address: &str, port| SocketAddr::new(address.parse().unwrap(), port);
    let old = Host::start_at(at("127.0.0.2", 0), Node::echo("w1", 1));
    let port = old.address.port();
    let (pool, mut events) = Pool::new(names.connect(), quick());
    pool.insert("w1", named(port));
    assert_eq!(connected(&mut events).await.1, Some(1));
    old.kill();
    disconnected(&mut events).await;
    let squatter = Node::echo("w2", 9);
    let _squatting = Host::start_at(at("127.0.0.2", port), squatter.clone());
    let mut refusals = 0;
    while refusals < 3 {
        let event = soon(events.recv()).await.unwrap();
        let EventKind::AttemptFailed { error, .. } = event.kind else {
            panic!("{event:?}");
        };
        if error.class == OpenClass::Refused {
            assert!(error.text.contains("another worker answers: w2"), "{error}");
            refusals += 1;
        }
    }
    let new = Host::start_at(at("127.0.0.3", port), Node::echo("w1", 2));
    let asked = names.asked();
    names.map("127.0.0.3");
    let watch = Watch::start();
    assert_eq!(connected(&mut events).await.1, Some(2));
    watch.within(STEP + Duration::from_millis(100), "to follow the name");
    assert!(names.asked() > asked, "each attempt asks anew");
    drop(new);
    assert!(squatter.calls() >= refusals);
    println!("CASE S04 fault={}", squatter.calls());
}
