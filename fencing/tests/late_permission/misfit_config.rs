//! Configurations that leave no time to work.

use fencing::{Policy, StartError, Watchdog, WatchdogConfig};

use crate::support::ms;

/// Check 29: length of the lease, grace, abort budget; the inequality with its numbers.
const MISFITS: [(u64, u64, u64, &str); 12] = [
    (
        10_000,
        9_490,
        500,
        "grace (9.49s) + abort_budget (500ms) must be less than ttl * (1 - 0.001) (9.99s)",
    ),
    (
        10_000,
        9_500,
        500,
        "grace (9.5s) + abort_budget (500ms) must be less than ttl * (1 - 0.001) (9.99s)",
    ),
    (
        10_000,
        0,
        9_990,
        "grace (0ns) + abort_budget (9.99s) must be less than ttl * (1 - 0.001) (9.99s)",
    ),
    (
        10_000,
        60_000,
        500,
        "grace (60s) + abort_budget (500ms) must be less than ttl * (1 - 0.001) (9.99s)",
    ),
    (
        3_000,
        600,
        3_000,
        "grace (600ms) + abort_budget (3s) must be less than ttl * (1 - 0.001) (2.997s)",
    ),
    (
        1_000,
        799,
        200,
        "grace (799ms) + abort_budget (200ms) must be less than ttl * (1 - 0.001) (999ms)",
    ),
    (
        500,
        300,
        200,
        "grace (300ms) + abort_budget (200ms) must be less than ttl * (1 - 0.001) (499.5ms)",
    ),
    (
        1,
        0,
        21,
        "grace (0ns) + abort_budget (21ms) must be less than ttl * (1 - 0.001) (999µs)",
    ),
    (
        0,
        0,
        21,
        "grace (0ns) + abort_budget (21ms) must be less than ttl * (1 - 0.001) (0ns)",
    ),
    (
        10_000,
        2_000,
        20,
        "abort_budget (20ms) must be more than 20ms",
    ),
    (
        10_000,
        2_000,
        1,
        "abort_budget (1ms) must be more than 20ms",
    ),
    (
        10_000,
        2_000,
        0,
        "abort_budget (0ns) must be more than 20ms",
    ),
];

#[test]
fn a_config_that_leaves_no_time_to_work_is_refused_with_both_sides() {
    for (ttl, grace, abort_budget, text) in MISFITS {
        let config = WatchdogConfig::for_ttl(ms(ttl))
            .with_grace(ms(grace))
            .with_abort_budget(ms(abort_budget));
        assert_eq!(config.validate().unwrap_err().to_string(), text);
        for policy in [Policy::Abort, Policy::CancelOnly] {
            let config = config.clone().with_policy(policy);
            let refused = Watchdog::start(config.clone()).unwrap_err();
            assert!(matches!(refused, StartError::Config(_)), "{refused:?}");
            let (Err(StartError::Config(refused)), ..) = (Watchdog::simulated(config, || ms(0)),)
            else {
                panic!("a simulation takes what a real watchdog refuses");
            };
            assert_eq!(refused.to_string(), text);
        }
    }
}
