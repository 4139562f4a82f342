//! Ways to stop leading that are none, and the one that is.

use std::future::Future;
use std::pin::pin;
use std::task::{Context, Waker};
use std::thread;
use std::time::Duration;

use fencing::{EXIT_CODE, Guard, GuardState, Policy, Watchdog, WatchdogConfig, boot_time};

use crate::{LEAD, block, child, config, guard};

/// Finishes a guard of which no permit is held.
pub(crate) fn finish(guard: &Guard) {
    let finished = pin!(guard.finish());
    let is_ready = finished
        .poll(&mut Context::from_waker(Waker::noop()))
        .is_ready();
    assert!(is_ready);
}

pub(crate) fn finish_again_and_again() {
    let watchdog = Watchdog::start(config()).unwrap();
    for token in 1..=1_000 {
        let guard = watchdog.guard(token, boot_time() + LEAD).unwrap();
        drop(guard.permit().unwrap());
        // Farther than any timer can be set.
        guard.extend(Duration::MAX);
        finish(&guard);
        assert_eq!(guard.state(), GuardState::Finished);
        // What comes from an election behind it means nothing.
        guard.extend(Duration::ZERO);
        guard.trip();
    }
    // Longer than any of those leases.
    thread::sleep(2 * LEAD);
}

#[test]
fn a_guard_that_is_finished_ends_nothing() {
    let ended = child::run("finish_again_and_again");
    assert_eq!(ended.status.code(), Some(0), "{ended:?}");
}

pub(crate) fn lose_without_finish() {
    let (_watchdog, guard) = guard(config());
    // As a leadership does that is resigned or dropped.
    guard.extend(Duration::ZERO);
    block()
}

#[test]
fn a_lease_given_back_before_finish_is_a_loss() {
    let ended = child::run("lose_without_finish");
    ended.assert_fenced();
    assert!(ended.status.code() == Some(EXIT_CODE) || ended.is_killed());
}

pub(crate) fn renew_while_finishing() {
    let (_watchdog, guard) = guard(config());
    let _permit = guard.permit().unwrap();
    {
        let finishing = pin!(guard.finish());
        let _ = finishing.poll(&mut Context::from_waker(Waker::noop()));
    }
    loop {
        guard.extend(boot_time() + 10 * LEAD);
        thread::sleep(Duration::from_millis(1));
    }
}

#[test]
fn renewals_while_finishing_do_not_prolong_it() {
    child::run("renew_while_finishing").assert_fenced();
}

pub(crate) fn hold_a_permit() {
    let (_watchdog, guard) = guard(config());
    let _permit = guard.permit().unwrap();
    let runtime = tokio::runtime::Builder::new_current_thread().build();
    runtime.unwrap().block_on(guard.finish());
}

#[test]
fn a_permit_that_outlives_the_abort_point_ends_the_process() {
    child::run("hold_a_permit").assert_fenced();
}

pub(crate) fn drop_everything() {
    drop(guard(config()));
    block()
}

#[test]
fn dropping_guard_and_watchdog_disarms_nothing() {
    child::run("drop_everything").assert_fenced();
}

pub(crate) fn panic_with_a_guard() {
    let main = thread::spawn(|| {
        let _guarded = guard(config());
        panic!("the test asked for it");
    });
    assert!(main.join().is_err());
    block()
}

#[test]
fn unwinding_disarms_nothing() {
    child::run("panic_with_a_guard").assert_fenced();
}

/// The thread is held up, so that only the kernel's timer acts.
pub(crate) fn guard_again_after_a_loss() {
    let (watchdog, first) = guard(config());
    first.trip();
    loop {
        if let Ok(second) = watchdog.guard(8, boot_time() + 100 * LEAD) {
            assert_eq!(second.state(), GuardState::Lost);
            second.extend(boot_time() + 100 * LEAD);
        }
    }
}

#[test]
fn no_later_guard_takes_the_end_of_the_process_back() {
    child::run("guard_again_after_a_loss").assert_fenced();
}

#[test]
fn a_permit_of_an_old_term_keeps_a_process_from_leading_again() {
    let config = WatchdogConfig::default().with_policy(Policy::CancelOnly);
    let watchdog = Watchdog::start(config).unwrap();
    let old = watchdog
        .guard(1, boot_time() + Duration::from_secs(10))
        .unwrap();
    let permit = old.permit().unwrap();
    old.trip();
    let deadline = boot_time() + Duration::from_secs(10);
    let error = watchdog.guard(2, deadline).unwrap_err();
    assert!(matches!(
        error,
        fencing::GuardError::Busy {
            token: 1,
            permits: 1,
            ..
        }
    ));
    drop(permit);
    watchdog.guard(2, deadline).unwrap();
}
