//! Hunts a guard that refuses and then allows again.
#![cfg(feature = "test-util")]
#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

mod support;

use std::sync::Barrier;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::thread;

use fencing::{Guard, GuardState};
use support::{ms, simulated};

const ROUNDS: u32 = 600;

/// Checks until `stop`, and fails when a refusal is taken back.
fn check_until(stop: &AtomicBool, guard: &Guard) -> bool {
    let mut is_refused = false;
    loop {
        let is_last = stop.load(Ordering::SeqCst);
        let is_ok = guard.check().is_ok() && guard.permit().is_ok();
        assert!(!(is_refused && is_ok), "a refused guard is alive again");
        is_refused |= !is_ok;
        if is_last {
            return is_refused;
        }
    }
}

/// Races `end` against renewals and checks; `end` must win in every round.
fn race(end: impl Fn(&support::Hand, &Guard) + Sync, expected: GuardState) {
    let renewed = AtomicU32::new(0);
    for round in 0..ROUNDS {
        let (watchdog, _, hand) = simulated();
        let guard = watchdog.guard(1, ms(110_000)).unwrap();
        let (start, stop) = (Barrier::new(5), AtomicBool::new(false));
        thread::scope(|scope| {
            for renewer in 0..2 {
                let (guard, hand, start, renewed) = (&guard, &hand, &start, &renewed);
                scope.spawn(move || {
                    start.wait();
                    for step in 0..30 {
                        // As if each reply had just come: from the present time on.
                        guard.extend(hand.now() + ms(10_000 + step * 2 + renewer));
                        renewed.fetch_add(1, Ordering::Relaxed);
                    }
                });
            }
            let checkers = [0; 2].map(|_| {
                scope.spawn(|| {
                    start.wait();
                    check_until(&stop, &guard)
                })
            });
            start.wait();
            for _ in 0..round % 64 {
                std::hint::spin_loop();
            }
            end(&hand, &guard);
            stop.store(true, Ordering::SeqCst);
            for checker in checkers {
                let is_refused = checker.join().unwrap();
                // A renewal that was faster than the clock keeps the guard alive.
                assert!(is_refused || expected == GuardState::Live);
            }
        });
        guard.extend(ms(u64::MAX));
        if expected != GuardState::Live {
            assert_eq!(guard.state(), expected);
        }
    }
    assert_eq!(renewed.into_inner(), ROUNDS * 60);
}

#[test]
fn no_renewal_revives_a_tripped_guard() {
    race(|_, guard| guard.trip(), GuardState::Lost);
}

#[test]
fn no_renewal_revives_a_guard_told_zero() {
    race(|_, guard| guard.extend(ms(0)), GuardState::Lost);
}

#[test]
fn no_renewal_revives_a_guard_that_was_over_at_a_check() {
    // The hand passes the first cancel point while renewals are under way.
    race(|hand, _| hand.set(107_510), GuardState::Live);
}

#[test]
fn a_finished_guard_knows_neither_loss_nor_renewal() {
    let (watchdog, simulation, hand) = simulated();
    let guard = watchdog.guard(1, ms(110_000)).unwrap();
    support::wait(guard.finish());
    guard.trip();
    guard.extend(ms(0));
    guard.extend(ms(200_000));
    hand.set(150_000);
    simulation.tick();
    assert_eq!(guard.state(), GuardState::Finished);
    let refused = guard.check().unwrap_err();
    let text = "work under token 1 is refused: its guard is finished";
    assert_eq!(refused.to_string(), text);
}

/// F10: the reply to a renewal arrives after the leadership was given up, and the
/// process has won again in between.
#[test]
fn a_late_reply_revives_nothing_after_the_process_has_won_again() {
    let mut late = 0;
    for end in [0, 1, 2] {
        let (watchdog, _, hand) = simulated();
        let guard = watchdog.guard(1, ms(110_000)).unwrap();
        let old = guard.clone();
        match end {
            0 => support::wait(guard.finish()),
            1 => guard.trip(),
            _ => hand.set(109_500),
        }
        drop(guard);
        let new = watchdog.guard(2, hand.now() + ms(10_000)).unwrap();
        for deadline in [ms(130_000), ms(1_000_000)] {
            old.extend(deadline);
            late += 1;
            assert_eq!(old.check().unwrap_err().token(), 1);
            old.permit().unwrap_err();
            new.check().unwrap();
        }
        // Nor does the end of the old one touch the new one.
        old.trip();
        support::wait(old.finish());
        new.check().unwrap();
    }
    println!("CASE F10 fault={late}");
}
