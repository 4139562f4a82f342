//! Hunts a process that outlives its lease.
//!
//! Real ladders end real processes: each scenario runs in a child, which is this very
//! program, and its parent looks at how and when it ended.
#![cfg(target_os = "linux")]
#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

mod blocked_exit;
mod blocked_runtime;
mod child;
mod first_process;
mod foreign_code;
mod ignored_cancel;
mod jumping_clock;
mod late_action;
mod late_reply;
mod lease_server;
mod missing_backstop;
mod needless_calls;
mod partitioned_leader;
mod raced_timer;
mod stopped_process;
mod thawed_process;
mod wrong_end;

use std::time::Duration;

use fencing::{Guard, Watchdog, WatchdogConfig, boot_time};

/// What children do; each name is one of [`child::run`].
const SCENARIOS: &[(&str, fn())] = &[
    ("act_on_every_thread", late_action::act_on_every_thread),
    ("block_in_exit", blocked_exit::block_in_exit),
    (
        "block_in_exit_without_us",
        blocked_exit::block_in_exit_without_us,
    ),
    ("block_on_abort_signal", blocked_exit::block_on_abort_signal),
    ("write_to_a_full_pipe", blocked_exit::write_to_a_full_pipe),
    ("block_all_workers", blocked_runtime::block_all_workers),
    (
        "block_the_only_thread",
        blocked_runtime::block_the_only_thread,
    ),
    (
        "block_in_a_blocking_task",
        blocked_runtime::block_in_a_blocking_task,
    ),
    ("block_a_waker", foreign_code::block_a_waker),
    ("panic_in_a_waker", foreign_code::panic_in_a_waker),
    (
        "lose_with_a_blocking_waker",
        foreign_code::lose_with_a_blocking_waker,
    ),
    (
        "signal_the_watchdogs_threads",
        foreign_code::signal_the_watchdogs_threads,
    ),
    (
        "start_without_threads",
        missing_backstop::start_without_threads,
    ),
    ("ignore_cancellation", ignored_cancel::ignore_cancellation),
    ("lose_while_working", ignored_cancel::lose_while_working),
    ("say_the_grade", missing_backstop::say_the_grade),
    (
        "require_the_backstop",
        missing_backstop::require_the_backstop,
    ),
    ("be_the_first_process", first_process::be_the_first_process),
    ("lead_under_a_lease", partitioned_leader::lead_under_a_lease),
    ("race_renewals", raced_timer::race_renewals),
    ("race_a_loss", raced_timer::race_a_loss),
    ("write_behind_a_check", thawed_process::write_behind_a_check),
    (
        "lead_while_the_clock_jumps",
        jumping_clock::lead_while_the_clock_jumps,
    ),
    ("check_between_marks", needless_calls::check_between_marks),
    ("spin", stopped_process::spin),
    ("renew_for_ever", stopped_process::renew_for_ever),
    ("finish_again_and_again", wrong_end::finish_again_and_again),
    ("lose_without_finish", wrong_end::lose_without_finish),
    ("renew_while_finishing", wrong_end::renew_while_finishing),
    ("hold_a_permit", wrong_end::hold_a_permit),
    ("drop_everything", wrong_end::drop_everything),
    ("panic_with_a_guard", wrong_end::panic_with_a_guard),
    (
        "guard_again_after_a_loss",
        wrong_end::guard_again_after_a_loss,
    ),
];

/// What is left of a lease whose guard has just been made, in most scenarios.
const LEAD: Duration = Duration::from_millis(600);

/// The child's side: does what its parent has named.
#[test]
#[ignore = "started by the tests of this program, in a child"]
fn child() {
    let name = child::scenario();
    let (_, act) = SCENARIOS.iter().find(|(known, _)| *known == name).unwrap();
    act();
}

fn config() -> WatchdogConfig {
    // abort_budget 200 ms, grace 132 ms
    WatchdogConfig::for_ttl(Duration::from_secs(1))
}

/// Guards a lease that ends after [`LEAD`], and tells the parent when.
fn guard(config: WatchdogConfig) -> (Watchdog, Guard) {
    let watchdog = Watchdog::start(config).unwrap();
    let guard = guard_of(&watchdog);
    (watchdog, guard)
}

fn guard_of(watchdog: &Watchdog) -> Guard {
    let deadline = boot_time() + LEAD;
    let guard = watchdog.guard(7, deadline).unwrap();
    child::tell_deadline(deadline);
    guard
}

/// Blocks this thread for ever.
fn block() -> ! {
    loop {
        std::thread::park();
    }
}
