//! Hunts a process that works beside its own earlier term, or gives the lease back
//! with work under way.
#![cfg(feature = "test-util")]

mod support;

use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::task::{Context, Waker};
use std::thread;

use fencing::{GuardError, GuardState};
use support::{Wakes, ms, on_thread, poll_once, simulated, wait};

fn busy(error: &GuardError) -> (u64, usize) {
    match error {
        GuardError::Busy { token, permits, .. } => (*token, *permits),
        other => panic!("{other:?}"),
    }
}

#[test]
fn a_live_or_closing_guard_keeps_the_watchdog_busy() {
    let (watchdog, _, hand) = simulated();
    let next = || watchdog.guard(2, ms(200_000));
    let guard = watchdog.guard(1, ms(110_000)).unwrap();
    assert_eq!(busy(&next().unwrap_err()), (1, 0));
    hand.set(109_499);
    guard.check().unwrap_err();
    assert_eq!(busy(&next().unwrap_err()), (1, 0));
    // Lost by the clock alone: no tick has run.
    hand.set(109_500);
    next().unwrap().check().unwrap();
}

#[test]
fn a_permit_keeps_the_watchdog_busy_whatever_became_of_its_guard() {
    let (watchdog, simulation, hand) = simulated();
    let guard = watchdog.guard(1, ms(110_000)).unwrap();
    let permits = [guard.permit().unwrap(), guard.permit().unwrap()];
    hand.set(300_000);
    simulation.tick();
    assert_eq!(guard.state(), GuardState::Lost);
    let error = watchdog.guard(2, ms(400_000)).unwrap_err();
    assert_eq!(busy(&error), (1, 2));
    assert_eq!(
        error.to_string(),
        "the guard of token 1 is still in use (2 permits are held); call finish() or \
         finish_blocking() on it first, dropping it is not enough"
    );
    // A deadline that is too near is no way around it.
    assert_eq!(busy(&watchdog.guard(2, ms(0)).unwrap_err()), (1, 2));
    let [first, second] = permits;
    drop(first);
    assert_eq!(busy(&watchdog.guard(2, ms(400_000)).unwrap_err()), (1, 1));
    drop(second);
    watchdog.guard(2, ms(400_000)).unwrap();
}

#[test]
fn dropping_every_handle_of_a_guard_does_not_free_the_watchdog() {
    let (watchdog, simulation, hand) = simulated();
    drop(watchdog.guard(1, ms(110_000)).unwrap());
    assert_eq!(busy(&watchdog.guard(2, ms(120_000)).unwrap_err()), (1, 0));
    hand.set(109_500);
    simulation.tick();
    assert_eq!(simulation.actions().len(), 2);
    watchdog.guard(2, ms(120_000)).unwrap();
}

#[test]
fn finish_waits_for_every_permit() {
    let (watchdog, simulation, _hand) = simulated();
    let guard = watchdog.guard(1, ms(110_000)).unwrap();
    let permits = [guard.permit().unwrap(), guard.permit().unwrap()];
    let wakes = Arc::new(Wakes::default());
    let waker = Waker::from(Arc::clone(&wakes));
    let mut finish = pin!(guard.finish());
    assert!(
        finish
            .as_mut()
            .poll(&mut Context::from_waker(&waker))
            .is_pending()
    );

    assert_eq!(guard.state(), GuardState::Closing);
    guard.permit().unwrap_err();
    assert!(poll_once(pin!(guard.cancelled())).is_ready());
    let [first, second] = permits;
    second.check().unwrap();
    drop(first);
    assert_eq!(wakes.count(), 0);
    assert!(poll_once(finish.as_mut()).is_pending());
    drop(second);
    assert!(poll_once(finish).is_ready());
    assert_eq!(guard.state(), GuardState::Finished);
    assert_eq!(simulation.tick(), None);
    watchdog.guard(2, ms(110_000)).unwrap();
}

#[test]
fn finish_is_woken_by_the_last_permit() {
    let (watchdog, _, _hand) = simulated();
    let guard = watchdog.guard(1, ms(110_000)).unwrap();
    let permit = guard.permit().unwrap();
    let finished = on_thread({
        let guard = guard.clone();
        move || wait(guard.finish())
    });
    // For code without async it is the same.
    let finished_blocking = on_thread({
        let guard = guard.clone();
        move || guard.finish_blocking()
    });
    wait(guard.cancelled());
    drop(permit);
    finished.join();
    finished_blocking.join();
    assert_eq!(guard.state(), GuardState::Finished);
}

#[test]
fn a_renewal_during_finish_does_not_prolong() {
    let (watchdog, _, hand) = simulated();
    let guard = watchdog.guard(1, ms(110_000)).unwrap();
    let permit = guard.permit().unwrap();
    let mut finish = pin!(guard.finish());
    assert!(poll_once(finish.as_mut()).is_pending());
    guard.extend(ms(200_000));
    permit.check().unwrap();
    hand.set(109_500);
    permit.check().unwrap_err();
    // It is lost by now, and still nothing may be given back before the permit is.
    assert!(poll_once(finish.as_mut()).is_pending());
    drop(permit);
    assert!(poll_once(finish).is_ready());
    assert_eq!(guard.state(), GuardState::Lost);
}

#[test]
fn a_loss_during_finish_is_a_loss() {
    let (watchdog, _, _hand) = simulated();
    let guard = watchdog.guard(1, ms(110_000)).unwrap();
    let permit = guard.permit().unwrap();
    let mut finish = pin!(guard.finish());
    assert!(poll_once(finish.as_mut()).is_pending());
    guard.trip();
    permit.check().unwrap_err();
    drop(permit);
    assert!(poll_once(finish).is_ready());
    assert_eq!(guard.state(), GuardState::Lost);
}

#[test]
fn finish_that_is_dropped_leaves_the_guard_closing_and_can_be_called_again() {
    let (watchdog, simulation, hand) = simulated();
    let guard = watchdog.guard(1, ms(110_000)).unwrap();
    let permit = guard.permit().unwrap();
    assert!(poll_once(pin!(guard.finish())).is_pending());
    drop(permit);
    assert_eq!(guard.state(), GuardState::Closing);
    assert_eq!(busy(&watchdog.guard(2, ms(110_000)).unwrap_err()), (1, 0));
    assert_eq!(simulation.tick(), Some(ms(109_500)));
    let again = guard.clone();
    wait(again.finish());
    wait(again.finish());
    assert_eq!(guard.state(), GuardState::Finished);

    let guard = watchdog.guard(2, ms(110_000)).unwrap();
    let permit = guard.permit().unwrap();
    assert!(poll_once(pin!(guard.finish())).is_pending());
    drop(permit);
    hand.set(109_500);
    assert_eq!(guard.state(), GuardState::Lost);
}

/// Whatever the schedule: once finish has returned, no permit is held.
#[test]
fn no_permit_is_held_after_finish_in_any_race() {
    let granted = AtomicU64::new(0);
    for token in 1..=1_000 {
        let (watchdog, _, _hand) = simulated();
        let guard = watchdog.guard(token, ms(110_000)).unwrap();
        let held = AtomicU64::new(0);
        let is_finished = AtomicBool::new(false);
        thread::scope(|scope| {
            for _ in 0..3 {
                scope.spawn(|| {
                    while let Ok(permit) = guard.permit() {
                        held.fetch_add(1, Ordering::SeqCst);
                        granted.fetch_add(1, Ordering::Relaxed);
                        assert!(!is_finished.load(Ordering::SeqCst), "a permit after finish");
                        held.fetch_sub(1, Ordering::SeqCst);
                        drop(permit);
                    }
                });
            }
            while token % 2 == 0 && granted.load(Ordering::Relaxed) < token {
                thread::yield_now();
            }
            wait(guard.finish());
            is_finished.store(true, Ordering::SeqCst);
            assert_eq!(held.load(Ordering::SeqCst), 0);
        });
        assert_eq!(guard.state(), GuardState::Finished);
    }
    assert!(granted.into_inner() > 500, "the permits never raced");
}
