//! E06: the store disappears; leadership must end locally, in time.

use std::{
    sync::{
        Arc, Mutex,
        atomic::{AtomicBool, Ordering::SeqCst},
    },
    thread::JoinHandle,
    time::Duration,
};

use leader_election::{Leadership, Loss};
use tokio::time::sleep;

use super::passed;
use crate::{
    boot_time, join_at, lead,
    proxy::{Proxy, Way},
    server::Etcd,
    soon,
};

const TTL: Duration = Duration::from_secs(3);
/// The TTL less the margin for clock drift.
const USABLE: Duration = Duration::from_millis(2997);
/// How long after its deadline a loss may be told.
const TOLD: Duration = Duration::from_millis(100);
/// The number of the connection of everything but renewals.
const WATCHES: u64 = 1;

#[tokio::test(flavor = "multi_thread")]
async fn a_leader_without_etcd_ends_by_its_deadline() {
    // Beside each other: all three mostly wait.
    tokio::join!(killed(), stopped(), black_holed());
}

async fn killed() {
    let mut etcd = Etcd::start().await;
    let proxy = Proxy::start(etcd.port()).await;
    ends_by_the_deadline(&proxy, || etcd.kill()).await;
    passed("E06", proxy.refused());
}

async fn stopped() {
    let etcd = Etcd::start().await;
    let proxy = Proxy::start(etcd.port()).await;
    ends_by_the_deadline(&proxy, || etcd.stop()).await;
    passed("E06-stopped", etcd.stopped_threads());
}

async fn black_holed() {
    let etcd = Etcd::start().await;
    let proxy = Proxy::start(etcd.port()).await;
    ends_by_the_deadline(&proxy, || proxy.set(Way::Swallow)).await;
    passed("E06-black-holed", proxy.swallowed());
}

async fn ends_by_the_deadline(proxy: &Proxy, fault: impl FnOnce()) {
    let election = join_at(&[proxy.endpoint()], TTL.as_secs()).await;
    let leadership = Arc::new(lead(&election, b"a").await);
    let followed = Arc::new(Mutex::new(Vec::new()));
    let notes = Arc::clone(&followed);
    leadership.follow(move |deadline| notes.lock().unwrap().push(deadline));
    // At least one renewal that was sent while leading.
    let renewed = async {
        while followed.lock().unwrap().len() < 3 {
            sleep(Duration::from_millis(20)).await;
        }
    };
    soon(renewed).await;
    let checks = Checks::start(Arc::clone(&leadership));
    sleep(Duration::from_millis(300)).await;
    let last_sent = last_renewal(&proxy.journal());
    fault();
    let deadline = leadership.deadline();
    // How late this busy machine is itself.
    let late = tokio::spawn(async move {
        sleep(deadline.saturating_sub(boot_time())).await;
        boot_time() - deadline
    });
    assert_eq!(soon(leadership.lost()).await, Loss::Expired);
    let told = boot_time();
    let late = late.await.unwrap();
    let last_valid = checks.last_valid();

    let last = followed
        .lock()
        .unwrap()
        .iter()
        .rev()
        .copied()
        .find(|d| !d.is_zero());
    assert_eq!(
        last,
        Some(deadline),
        "nothing was confirmed after the fault"
    );
    assert!(deadline <= last_sent + USABLE, "counted from the send");
    assert!(deadline < last_sent + TTL, "before the lease can end");
    assert!(last_valid < deadline, "{last_valid:?} {deadline:?}");
    assert!(told <= deadline + TOLD + late, "{:?}", told - deadline);
    assert!(!leadership.is_valid());
    assert_eq!(followed.lock().unwrap().last(), Some(&Duration::ZERO));
}

/// Returns when the last burst of bytes of the renewals began.
fn last_renewal(sent: &[(Duration, u64)]) -> Duration {
    let renewals: Vec<_> = sent.iter().filter(|(_, on)| *on != WATCHES).collect();
    let begins = renewals.windows(2).rev().find_map(|pair| {
        let gap = pair[1].0 - pair[0].0;
        (gap > Duration::from_millis(300)).then_some(pair[1].0)
    });
    begins.expect("several renewals were sent")
}

/// A thread that checks all the time, as work does.
struct Checks {
    is_over: Arc<AtomicBool>,
    thread: JoinHandle<Duration>,
}

impl Checks {
    fn start(leadership: Arc<Leadership>) -> Self {
        let is_over = Arc::new(AtomicBool::new(false));
        let over = Arc::clone(&is_over);
        let thread = std::thread::spawn(move || {
            let (mut last, mut was_false) = (Duration::ZERO, false);
            while !over.load(SeqCst) {
                let before = boot_time();
                if leadership.is_valid() {
                    assert!(!was_false, "valid again");
                    last = before;
                } else {
                    was_false = true;
                }
                std::thread::sleep(Duration::from_micros(200));
            }
            last
        });
        Self { is_over, thread }
    }

    /// Returns when the last check began that found it valid.
    fn last_valid(self) -> Duration {
        self.is_over.store(true, SeqCst);
        self.thread.join().unwrap()
    }
}
