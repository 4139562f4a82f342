//! A lease that is given back with work under way.

use std::cell::Cell;

use fencing::GuardState;
use proptest::prelude::*;
use proptest::test_runner::TestRunner;

use crate::support::{ms, poll_once, simulated};

const START: u64 = 100_000;
const DEADLINE: u64 = 110_000;
/// The abort point of the default configuration, before the deadline.
const ABORT: u64 = 500;

#[derive(Clone, Copy, Debug)]
enum Step {
    Begin,
    /// One of the permits that are held is dropped.
    End(usize),
    Pass(u64),
    /// The owner wants to give the lease back, and polls.
    Finish,
    Renew,
    Tick,
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        5 => Just(Step::Begin),
        3 => any::<usize>().prop_map(Step::End),
        3 => (0_u64..5_000).prop_map(Step::Pass),
        2 => Just(Step::Finish),
        1 => Just(Step::Renew),
        1 => Just(Step::Tick),
    ]
}

/// Check 20: the lease is given back only with nothing under way, and never when a permit
/// was held at the abort point: then the ladder runs.
#[test]
fn no_schedule_gives_the_lease_back_with_a_permit_held() {
    let mut runner = TestRunner::new(crate::cases(10_000));
    let steps = proptest::collection::vec(step(), 1..40);
    let (released, outlived) = (Cell::new(0_u32), Cell::new(0_u32));
    let run = runner.run(&steps, |steps| {
        let (watchdog, simulation, hand) = simulated();
        let guard = watchdog.guard(1, ms(DEADLINE)).unwrap();
        let (mut now, mut deadline) = (START, DEADLINE);
        let mut permits = Vec::new();
        let mut finish = Box::pin(guard.finish());
        let (mut is_finishing, mut is_late) = (false, false);
        for step in steps {
            match step {
                Step::Begin => permits.extend(guard.permit().ok()),
                Step::End(which) if !permits.is_empty() => {
                    drop(permits.swap_remove(which % permits.len()));
                }
                Step::End(_) => {}
                Step::Pass(time) => {
                    now += time;
                    hand.set(now);
                }
                Step::Renew => {
                    if !is_finishing && guard.check().is_ok() {
                        deadline = deadline.max(now + 10_000);
                    }
                    guard.extend(ms(now + 10_000));
                }
                Step::Tick => drop(simulation.tick()),
                Step::Finish => {
                    is_finishing = true;
                    if poll_once(finish.as_mut()).is_ready() {
                        prop_assert!(permits.is_empty(), "a release beside a permit");
                        let is_released = guard.state() == GuardState::Finished;
                        prop_assert!(!(is_released && is_late), "a permit outlived it");
                        prop_assert_eq!(is_released, now + ABORT < deadline);
                        released.set(released.get() + u32::from(is_released));
                        return Ok(());
                    }
                    prop_assert!(!permits.is_empty(), "nothing holds the lease");
                }
            }
            if now + ABORT >= deadline && !permits.is_empty() {
                outlived.set(outlived.get() + u32::from(!is_late));
                is_late = true;
                prop_assert_eq!(guard.state(), GuardState::Lost);
            }
        }
        finish = Box::pin(guard.finish());
        permits.clear();
        prop_assert!(poll_once(finish.as_mut()).is_ready());
        Ok(())
    });
    run.unwrap();
    let (released, outlived) = (released.get(), outlived.get());
    println!("{released} leases were given back; {outlived} times a permit outlived its own");
    assert!(released > 100 && outlived > 100);
}
