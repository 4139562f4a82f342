//! Random schedules: several candidates and one store on a simulated network,
//! each candidate with a clock of its own rate, with cuts, pauses and restarts.

mod model;
mod world;

use std::time::Duration;

use proptest::prelude::*;

use self::world::{Fault, Plan, World};

const SECOND: Duration = Duration::from_secs(1);

fn millis(range: std::ops::Range<u64>) -> impl Strategy<Value = Duration> {
    range.prop_map(Duration::from_millis)
}

fn fault() -> impl Strategy<Value = Fault> {
    let length = millis(100..25_000);
    (0_usize..3, millis(0..60_000), length, 0..4).prop_map(|(who, at, length, kind)| match kind {
        0 => Fault::Cut { who, at, length },
        1 => Fault::Pause { who, at, length },
        2 => Fault::Resign { who, at },
        _ => Fault::Expire { who, at },
    })
}

fn plan() -> impl Strategy<Value = Plan> {
    (
        any::<u64>(),
        // Within the margin: rho is 0.001.
        prop::array::uniform3(-0.0009..0.0009_f64),
        prop::collection::vec(fault(), 0..12),
        millis(1..1_500),
        prop_oneof![Just(Duration::ZERO), millis(0..4_000)],
    )
        .prop_map(|(seed, drift, faults, slowest, takeover_delay)| Plan {
            seed,
            drift,
            faults,
            slowest,
            takeover_delay,
        })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(200))]

    #[test]
    fn never_two_valid_leaders_and_always_one_in_the_end(plan in plan()) {
        let mut world = World::new(&plan);
        world.run_until(Duration::from_secs(90)).map_err(TestCaseError::fail)?;
        // All faults are over: two leases and a few retries later one leads.
        world.calm();
        let quiet = Duration::from_secs(90) + 25 * SECOND + plan.takeover_delay;
        world.run_until(quiet).map_err(TestCaseError::fail)?;
        prop_assert_eq!(world.valid().len(), 1);
    }
}

/// A check of the check: the simulation can see an overlap.
#[test]
fn a_clock_slower_than_the_margin_allows_is_seen_to_overlap() {
    let cut = |who| Fault::Cut {
        who,
        at: 20 * SECOND,
        length: 20 * SECOND,
    };
    let mut plan = Plan {
        seed: 1,
        drift: [-0.0009; 3],
        faults: vec![cut(0)],
        slowest: Duration::from_millis(2),
        takeover_delay: Duration::ZERO,
    };
    let run = |plan: &Plan| World::new(plan).run_until(60 * SECOND);
    assert_eq!(run(&plan), Ok(()));
    plan.drift = [-0.2, 0.0, 0.0];
    let overlap = run(&plan).unwrap_err();
    assert!(overlap.contains("both valid"), "{overlap}");
}

#[test]
fn the_same_seed_gives_the_same_history() {
    let pause = |who| Fault::Pause {
        who,
        at: 5 * SECOND,
        length: 15 * SECOND,
    };
    let plan = Plan {
        seed: 42,
        drift: [0.0; 3],
        faults: (0..3).map(pause).collect(),
        slowest: Duration::from_millis(300),
        takeover_delay: Duration::ZERO,
    };
    let history = || {
        let mut world = World::new(&plan);
        world.run_until(60 * SECOND).unwrap();
        world.history
    };
    assert!(history().len() >= 2, "the pause costs the first leadership");
    assert_eq!(history(), history());
}
