//! Hunts a waker that panics and takes the wake from all who wait beside it.

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::task::{Context, Poll, Wake, Waker};
use std::time::Duration;

use fencing::{Fence, Policy, Watchdog, WatchdogConfig, boot_time};

use crate::support::wait;

const WAITING: usize = 100;

/// Counts all wakes of its kind; every third panics.
struct Moody {
    woken: Arc<AtomicUsize>,
    panics: bool,
}

impl Wake for Moody {
    fn wake(self: Arc<Self>) {
        self.woken.fetch_add(1, Ordering::SeqCst);
        assert!(!self.panics, "a waker of a foreign executor panics");
    }
}

type Waiting = Vec<Pin<Box<dyn Future<Output = ()> + Send>>>;

/// Polls each once, with a waker of its own; says how many were woken by the time that
/// `wake` has returned and `is_over`.
fn woken_by(mut waiting: Waiting, wake: impl FnOnce()) -> usize {
    let woken = Arc::<AtomicUsize>::default();
    for (at, future) in waiting.iter_mut().enumerate() {
        let moody = Moody {
            woken: Arc::clone(&woken),
            panics: at % 3 == 0,
        };
        let waker = Waker::from(Arc::new(moody));
        let polled = future.as_mut().poll(&mut Context::from_waker(&waker));
        assert_eq!(polled, Poll::Pending);
    }
    wake();
    let patience = boot_time() + Duration::from_secs(20);
    while woken.load(Ordering::SeqCst) < WAITING && boot_time() < patience {
        std::thread::yield_now();
    }
    woken.load(Ordering::SeqCst)
}

fn times(future: impl Fn() -> Pin<Box<dyn Future<Output = ()> + Send>>) -> Waiting {
    (0..WAITING).map(|_| future()).collect()
}

#[test]
fn who_waits_for_the_cancellation_is_woken_beside_it() {
    let config = WatchdogConfig::default().with_policy(Policy::CancelOnly);
    let watchdog = Watchdog::start(config).unwrap();
    let guard = watchdog
        .guard(1, boot_time() + Duration::from_secs(600))
        .unwrap();
    let waiting = times(|| Box::pin(guard.cancelled()));
    assert_eq!(woken_by(waiting, || guard.trip()), WAITING);
}

#[test]
fn who_waits_for_a_revocation_is_woken_beside_it() {
    let fence = Fence::new();
    let admission = wait(fence.admit(1)).unwrap();
    let waiting = times(|| Box::pin(admission.revoked()));
    let raise = || assert!(crate::support::poll_once(std::pin::pin!(fence.admit(2))).is_pending());
    assert_eq!(woken_by(waiting, raise), WAITING);
}

#[test]
fn who_waits_to_be_admitted_is_woken_beside_it() {
    let fence = Fence::new();
    let admission = wait(fence.admit(1)).unwrap();
    let waiting = times(|| {
        let fence = fence.clone();
        Box::pin(async move { drop(fence.admit(2).await) })
    });
    assert_eq!(woken_by(waiting, || drop(admission)), WAITING);
}
