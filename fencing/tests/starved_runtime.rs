//! Hunts a cancellation that waits for a blocked async runtime.
#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

mod support;

use std::future::pending;
use std::pin::pin;
use std::sync::{Arc, Mutex, mpsc};
use std::task::{Context, Wake};
use std::time::Duration;

use fencing::{Guard, GuardState, Policy, Watchdog, WatchdogConfig, boot_time};
use support::{LIMIT, ms, on_thread, wait};
use tokio::runtime::{Builder, Runtime};

/// How late a thread may be woken on a loaded test machine.
const LATE: Duration = Duration::from_secs(2);

fn watchdog() -> (Watchdog, WatchdogConfig) {
    let config = WatchdogConfig::for_ttl(ms(1_000)).with_policy(Policy::CancelOnly);
    (Watchdog::start(config.clone()).unwrap(), config)
}

/// A guard whose cancel point is `lead` from now, and that point.
fn guard(watchdog: &Watchdog, lead: Duration) -> (Guard, Duration) {
    let cancel_at = boot_time() + lead;
    let guard = watchdog.guard(1, cancel_at + watchdog.reserve()).unwrap();
    (guard, cancel_at)
}

/// Blocks every thread of `runtime` with blocking code until the sender is dropped.
fn block_all(runtime: &Runtime, workers: usize) -> mpsc::Sender<()> {
    let (free, blocked) = mpsc::channel::<()>();
    let blocked = Arc::new(Mutex::new(blocked));
    let (count, counted) = mpsc::channel();
    for _ in 0..workers {
        let (count, blocked) = (count.clone(), blocked.clone());
        runtime.spawn(async move {
            count.send(()).unwrap();
            // The first waits for the channel, the others for the lock.
            blocked.lock().unwrap().recv().unwrap_err();
        });
    }
    for _ in 0..workers {
        counted.recv_timeout(LIMIT).unwrap();
    }
    free
}

/// The time at which `cancelled` resolved, seen from a thread of no runtime.
fn watch(guard: &Guard) -> support::Pending<Duration> {
    let cancelled = guard.cancelled();
    on_thread(move || {
        wait(cancelled);
        boot_time()
    })
}

fn assert_on_time(cancelled_at: Duration, cancel_at: Duration) {
    assert!(cancelled_at >= cancel_at, "cancelled too early");
    let late = cancelled_at - cancel_at;
    assert!(late < LATE, "cancelled {late:?} late");
}

#[test]
fn blocked_workers_do_not_delay_the_cancellation() {
    let (watchdog, _) = watchdog();
    let runtime = Builder::new_multi_thread()
        .worker_threads(2)
        .enable_all()
        .build()
        .unwrap();
    let (guard, cancel_at) = guard(&watchdog, ms(200));
    let running = runtime.spawn({
        let guard = guard.clone();
        async move { guard.run(pending::<()>()).await }
    });
    let free = block_all(&runtime, 2);
    assert_on_time(watch(&guard).join(), cancel_at);
    guard.permit().unwrap_err();
    // The task itself can only be dropped once a worker is free.
    assert!(!running.is_finished());
    drop(free);
    let lost = runtime.block_on(running).unwrap().unwrap_err();
    assert_eq!(lost.token(), 1);
}

#[test]
fn a_blocked_current_thread_does_not_delay_the_cancellation() {
    let (watchdog, _) = watchdog();
    let (guard, cancel_at) = guard(&watchdog, ms(200));
    let watched = watch(&guard);
    let runtime = Builder::new_current_thread().enable_all().build().unwrap();
    let cancelled_at = runtime.block_on(async { watched.join() });
    assert_on_time(cancelled_at, cancel_at);
    guard.check().unwrap_err();
}

#[test]
fn run_needs_no_timer_of_the_runtime() {
    let (watchdog, _) = watchdog();
    // Neither time nor I/O is enabled.
    let runtime = Builder::new_current_thread().build().unwrap();
    let (guard, cancel_at) = guard(&watchdog, ms(100));
    runtime.block_on(guard.run(pending::<()>())).unwrap_err();
    assert_on_time(boot_time(), cancel_at);
    // And under no runtime at all.
    wait(guard.run(pending::<()>())).unwrap_err();
}

#[test]
fn renewals_put_the_cancellation_off() {
    let (watchdog, _) = watchdog();
    let (guard, first) = guard(&watchdog, ms(150));
    let mut cancel_at = first;
    let watched = watch(&guard);
    for _ in 0..3 {
        cancel_at += ms(100);
        guard.extend(cancel_at + watchdog.reserve());
    }
    assert_on_time(watched.join(), cancel_at);
}

#[test]
fn a_trip_cancels_at_once() {
    let (watchdog, _) = watchdog();
    let (guard, _) = guard(&watchdog, Duration::from_secs(3_600));
    let watched = watch(&guard);
    let tripped_at = boot_time();
    guard.trip();
    assert_on_time(watched.join(), tripped_at);
    assert_eq!(guard.state(), GuardState::Lost);
}

#[test]
fn a_cancelled_guard_is_lost_at_its_abort_point_unless_finished() {
    let (watchdog, config) = watchdog();
    let (left, cancel_at) = guard(&watchdog, ms(50));
    wait(left.cancelled());
    support::until("the guard is lost", || left.state() == GuardState::Lost);
    assert!(boot_time() >= cancel_at + config.grace);

    let (stopped, _) = guard(&watchdog, ms(50));
    wait(stopped.cancelled());
    wait(stopped.finish());
    assert_ne!(stopped.state(), GuardState::Closing);
}

/// Wakers are other people's code: one that panics must not end the watchdog.
#[test]
fn a_waker_that_panics_does_not_end_the_watchdog() {
    /// So does what it panics with.
    struct Payload;
    impl Drop for Payload {
        fn drop(&mut self) {
            panic!("the drop of a payload panics, as this test wants");
        }
    }
    struct Panics;
    impl Wake for Panics {
        fn wake(self: Arc<Self>) {
            std::panic::panic_any(Payload);
        }
    }
    let (watchdog, _) = watchdog();
    let (first, _) = guard(&watchdog, ms(50));
    let mut cancelled = pin!(first.cancelled());
    let waker = Arc::new(Panics).into();
    let mut cx = Context::from_waker(&waker);
    assert!(cancelled.as_mut().poll(&mut cx).is_pending());
    support::until("the guard is lost", || first.state() == GuardState::Lost);
    let (second, cancel_at) = guard(&watchdog, ms(50));
    assert_on_time(watch(&second).join(), cancel_at);
}
