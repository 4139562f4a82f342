//! What several test files share.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]
#![allow(dead_code, reason = "each test file uses a part of it")]
#![allow(
    unreachable_pub,
    reason = "a module of a test is reachable from nowhere"
)]

use std::future::Future;
use std::pin::{Pin, pin};
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, mpsc};
use std::task::{Context, Poll, Wake, Waker};
use std::thread;
use std::time::Duration;

use fencing::boot_time;

/// Longer than anything here may take on a loaded machine.
pub const LIMIT: Duration = Duration::from_secs(30);

pub const fn ms(ms: u64) -> Duration {
    Duration::from_millis(ms)
}

/// A clock that a test moves.
#[derive(Clone, Default)]
pub struct Hand(Arc<AtomicU64>);

impl Hand {
    pub fn at(ms: u64) -> Self {
        let hand = Self::default();
        hand.set(ms);
        hand
    }

    pub fn set(&self, ms: u64) {
        self.0.store(ms, Ordering::SeqCst);
    }

    pub fn now(&self) -> Duration {
        ms(self.0.load(Ordering::SeqCst))
    }
}

/// A watchdog that only cancels, with the default times (cancel 2.5 s and abort 0.5 s before the
/// deadline) on a clock that stands at 100 s.
#[cfg(feature = "test-util")]
pub fn simulated() -> (fencing::Watchdog, fencing::Simulation, Hand) {
    let hand = Hand::at(100_000);
    let read = hand.clone();
    let config = fencing::WatchdogConfig::default().with_policy(fencing::Policy::CancelOnly);
    let (watchdog, simulation) = fencing::Watchdog::simulated(config, move || read.now()).unwrap();
    (watchdog, simulation, hand)
}

/// Counts how often it was woken.
#[derive(Default)]
pub struct Wakes(AtomicUsize);

impl Wakes {
    pub fn count(&self) -> usize {
        self.0.load(Ordering::SeqCst)
    }
}

impl Wake for Wakes {
    fn wake(self: Arc<Self>) {
        self.0.fetch_add(1, Ordering::SeqCst);
    }
}

/// Polls once with a waker that does nothing.
pub fn poll_once<F: Future + ?Sized>(future: Pin<&mut F>) -> Poll<F::Output> {
    future.poll(&mut Context::from_waker(Waker::noop()))
}

/// Waits on this thread, without any runtime; fails the test after [`LIMIT`].
pub fn wait<F: Future>(future: F) -> F::Output {
    struct Unpark(thread::Thread);
    impl Wake for Unpark {
        fn wake(self: Arc<Self>) {
            self.0.unpark();
        }
    }
    let waker = Waker::from(Arc::new(Unpark(thread::current())));
    let (mut future, end) = (pin!(future), boot_time() + LIMIT);
    loop {
        if let Poll::Ready(output) = future.as_mut().poll(&mut Context::from_waker(&waker)) {
            return output;
        }
        let left = end.saturating_sub(boot_time());
        assert!(!left.is_zero(), "nothing happened within {LIMIT:?}");
        thread::park_timeout(left);
    }
}

/// Runs `work` on a thread of its own and fails the test if it takes too long.
pub fn on_thread<T: Send + 'static>(work: impl FnOnce() -> T + Send + 'static) -> Pending<T> {
    let (done, result) = mpsc::channel();
    thread::spawn(move || {
        // The test may have failed and gone.
        let _ = done.send(work());
    });
    Pending(result)
}

/// The result of [`on_thread`].
pub struct Pending<T>(mpsc::Receiver<T>);

impl<T> Pending<T> {
    pub fn join(self) -> T {
        self.0
            .recv_timeout(LIMIT)
            .expect("a thread panicked or hangs")
    }
}

/// Yields until `is_true`; fails the test after [`LIMIT`]. For what only the
/// operating system knows.
pub fn until(what: &str, mut is_true: impl FnMut() -> bool) {
    let end = boot_time() + LIMIT;
    while !is_true() {
        assert!(boot_time() < end, "not within {LIMIT:?}: {what}");
        thread::yield_now();
    }
}
