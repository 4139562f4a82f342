//! Hunts a live guard that a drop disarms, and a thread that nobody ends.
//!
//! One test, since it counts the threads of its own process.
#![cfg(target_os = "linux")]
#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

mod support;

use std::fs;

use fencing::{GuardState, Policy, StartError, Watchdog, WatchdogConfig, boot_time};
use support::{ms, until, wait};

/// The states of this process's watchdog threads: `S` for one that sleeps.
fn states() -> String {
    let tasks = fs::read_dir("/proc/self/task").unwrap();
    let stats = tasks.filter_map(|task| fs::read_to_string(task.ok()?.path().join("stat")).ok());
    stats
        .filter_map(|stat| stat.split_once("(fence-watchdog) ")?.1.chars().next())
        .collect()
}

fn threads() -> usize {
    states().len()
}

/// Waits for a thread that has nothing to do but sleep, so that what follows must
/// wake it.
fn until_asleep() {
    until("the thread sleeps", || states() == "S");
}

#[test]
fn a_dropped_watchdog_acts_on_its_live_guard_and_then_ends() {
    let config = WatchdogConfig::for_ttl(ms(1_000)).with_policy(Policy::CancelOnly);
    let start = || Watchdog::start(config.clone()).unwrap();
    let deadline = |lead| boot_time() + ms(lead) + config.reserve();
    assert_eq!(threads(), 0);

    // A configuration that does not fit starts nothing.
    let bad = config.clone().with_grace(ms(1_000));
    assert!(matches!(Watchdog::start(bad), Err(StartError::Config(_))));
    assert_eq!(threads(), 0);

    // Without a guard the thread ends with its owner.
    let watchdog = start();
    until_asleep();
    drop(watchdog);
    until("the thread without a guard has ended", || threads() == 0);

    // With a live one it goes on, and cancels.
    let watchdog = start();
    let guard = watchdog.guard(1, deadline(300)).unwrap();
    drop(watchdog);
    guard.check().unwrap();
    guard.extend(deadline(500));
    wait(guard.cancelled());
    until("the thread has seen the loss", || threads() == 0);
    assert_eq!(guard.state(), GuardState::Lost);

    // Even if every handle is gone; only those who wait remain.
    let watchdog = start();
    let cancelled = watchdog.guard(2, deadline(100)).unwrap().cancelled();
    drop(watchdog);
    wait(cancelled);
    until("the thread of the dropped guard has ended", || {
        threads() == 0
    });

    // An end that comes early ends the thread early.
    for finish in [true, false] {
        let watchdog = start();
        let guard = watchdog.guard(3, deadline(3_600_000)).unwrap();
        drop(watchdog);
        until_asleep();
        if finish {
            wait(guard.finish());
        } else {
            guard.trip();
        }
        until("the thread of the ended guard has ended", || threads() == 0);
    }

    // A permit that outlives the loss does not hold the thread.
    let watchdog = start();
    let guard = watchdog.guard(4, deadline(50)).unwrap();
    let permit = guard.permit().unwrap();
    drop(watchdog);
    wait(guard.cancelled());
    until("the thread has ended under a permit", || threads() == 0);
    permit.check().unwrap_err();
}
