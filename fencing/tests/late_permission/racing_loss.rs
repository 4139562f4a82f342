//! A loss that renewals race with, on eight threads.

use std::sync::{Barrier, Mutex};
use std::thread;

use fencing::{Guard, GuardState};

use crate::support::{ms, simulated};

const THREADS: u32 = 8;
const NOW: u64 = 100_000;
const RESERVE: u64 = 2_500;

/// Renews and looks; what was seen once may not become less, except once and for all.
fn renew(guard: &Guard, me: u32) {
    let mut least = ms(0);
    let mut is_refused = false;
    for step in 1..=6 {
        let deadline = NOW + 10_000 + u64::from(step * THREADS + me);
        guard.extend(ms(deadline));
        let left = guard.remaining();
        is_refused |= left.is_zero();
        if is_refused {
            assert!(left.is_zero(), "a refused guard is alive again");
            guard.check().unwrap_err();
        } else {
            least = least.max(ms(deadline - NOW - RESERVE));
            assert!(left >= least, "{left:?} is less than {least:?}");
            least = left;
        }
    }
}

/// Check 3: the deadline never goes back, and a loss is final on every thread.
#[test]
fn no_renewal_revives_or_shortens_whatever_it_races_with() {
    let rounds = crate::rounds(3_000, 1_000_000);
    let (watchdog, _, _hand) = simulated();
    let latest: Mutex<Option<Guard>> = Mutex::default();
    let barrier = Barrier::new(THREADS as usize);
    thread::scope(|scope| {
        for me in 0..THREADS {
            let (watchdog, latest, barrier) = (&watchdog, &latest, &barrier);
            scope.spawn(move || {
                for round in 0..rounds {
                    if me == 0 {
                        let token = u64::from(round) + 1;
                        let guard = watchdog.guard(token, ms(NOW + 10_000)).unwrap();
                        *latest.lock().unwrap() = Some(guard);
                    }
                    barrier.wait();
                    let guard = latest.lock().unwrap().clone().unwrap();
                    if me == round % THREADS {
                        // At another moment in each round.
                        for _ in 0..round / THREADS % 128 {
                            std::hint::spin_loop();
                        }
                        guard.trip();
                        guard.check().unwrap_err();
                    } else {
                        renew(&guard, me);
                    }
                    barrier.wait();
                    guard.check().unwrap_err();
                    guard.permit().unwrap_err();
                    assert_eq!(guard.state(), GuardState::Lost);
                    drop(guard);
                    barrier.wait();
                }
            });
        }
    });
}
