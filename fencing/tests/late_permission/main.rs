//! Hunts permission to work that comes too late, costs too much or is taken back too late.
#![cfg(feature = "test-util")]
#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

mod costly_check;
mod early_release;
mod late_check;
mod misfit_config;
mod racing_loss;
#[path = "../support/mod.rs"]
mod support;

/// How many rounds to run: few by default, many with `SOAK=1`.
fn rounds(few: u32, many: u32) -> u32 {
    if std::env::var_os("SOAK").is_some() {
        many
    } else {
        few
    }
}

/// A failed case is printed with its input, which is shrunk.
fn cases(cases: u32) -> proptest::test_runner::Config {
    proptest::test_runner::Config {
        cases,
        failure_persistence: None,
        ..Default::default()
    }
}
