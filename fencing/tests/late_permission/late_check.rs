//! Random renewals and times: what is allowed when.

use fencing::GuardState;
use proptest::prelude::*;
use proptest::test_runner::TestRunner;

use crate::support::{ms, simulated};

const START: u64 = 100_000;
/// Cancel and abort point of the default configuration, before the deadline.
const CANCEL: u64 = 2_500;
const ABORT: u64 = 500;

#[derive(Clone, Copy, Debug)]
enum Input {
    /// Time passes.
    Pass(u64),
    /// A renewal is confirmed that was sent so long ago, for so long.
    Renew { ago: u64, ttl: u64 },
    /// The loss is told.
    Trip,
}

fn input() -> impl Strategy<Value = Input> {
    prop_oneof![
        6 => (0_u64..3_000).prop_map(Input::Pass),
        6 => (0_u64..12_000, 1_u64..20_000).prop_map(|(ago, ttl)| Input::Renew { ago, ttl }),
        1 => Just(Input::Trip),
    ]
}

/// Check 2: every answer is that of a model which knows all confirmed deadlines.
#[test]
fn no_check_allows_anything_from_the_cancel_point_on() {
    let cases = crate::rounds(4_000, 1_000_000);
    let mut runner = TestRunner::new(crate::cases(cases));
    let inputs = proptest::collection::vec(input(), 1..24);
    let run = runner.run(&inputs, |inputs| {
        let (watchdog, _, hand) = simulated();
        let mut now = START;
        let mut deadline = START + 10_000;
        let mut is_over = false;
        let guard = watchdog.guard(1, ms(deadline)).unwrap();
        let permit = guard.permit().unwrap();
        for input in inputs {
            match input {
                Input::Pass(time) => {
                    now += time;
                    hand.set(now);
                }
                Input::Renew { ago, ttl } => {
                    let renewed = now.saturating_sub(ago) + ttl;
                    guard.extend(ms(renewed));
                    // One that comes too late changes nothing.
                    if !is_over && now + CANCEL < deadline {
                        deadline = deadline.max(renewed);
                    }
                }
                Input::Trip => {
                    guard.trip();
                    deadline = 0;
                }
            }
            is_over |= now + CANCEL >= deadline;
            prop_assert_eq!(guard.check().is_ok(), !is_over, "{:?} at {}", input, now);
            prop_assert_eq!(guard.permit().is_ok(), !is_over);
            prop_assert_eq!(permit.check().is_ok(), now + ABORT < deadline);
            prop_assert_eq!(guard.state() == GuardState::Live, !is_over);
        }
        Ok(())
    });
    run.unwrap();
}

/// Check 4: the lease counts from the sending of its request, not from the reply.
#[test]
fn a_late_reply_leaves_what_is_left_of_its_own_lease() {
    let (ttl, table) = (
        10_000,
        // After how much of the lease the reply comes; what is left to start work.
        [
            (0, 7_500),
            (1_000, 6_500),
            (5_000, 2_500),
            (7_499, 1),
            (7_500, 0),
            (9_000, 0),
            (10_000, 0),
            (25_000, 0),
        ],
    );
    for (delay, left) in table {
        // The first lease goes on just long enough for the reply to find it alive.
        let (watchdog, _, hand) = simulated();
        let guard = watchdog.guard(1, ms(START + delay + CANCEL + 1)).unwrap();
        hand.set(START + delay);
        guard.extend(ms(START + ttl));
        let expected = if left > 0 { left } else { 1 };
        assert_eq!(guard.remaining(), ms(expected), "after {delay} ms");
        hand.set(START + delay + expected);
        guard.check().unwrap_err();

        // A reply to the first request of all makes a guard that is lost.
        let (watchdog, _, hand) = simulated();
        hand.set(START + delay);
        let guard = watchdog.guard(1, ms(START + ttl)).unwrap();
        assert_eq!(guard.check().is_ok(), left > 0, "after {delay} ms");
        assert_eq!(guard.remaining(), ms(left));
    }
}
