//! A system that grants no timer.

use fencing::{Backstop, Grade, Policy, StartError, Watchdog};

use crate::{child, config};

/// Runs a child that may have no pending signals, and so no timers of the kernel.
const WITHOUT_TIMERS: &[&str] = &["prlimit", "--sigpending=0:0"];

pub(crate) fn say_the_grade() {
    let watchdog = Watchdog::start(config()).unwrap();
    child::tell("grade", &format!("{:?}", watchdog.grade()));
}

pub(crate) fn require_the_backstop() {
    let config = config().with_backstop(Backstop::Required);
    let started = Watchdog::start(config);
    let is_refused = matches!(started, Err(StartError::Backstop(_)));
    child::tell("refused", &is_refused.to_string());
}

#[test]
fn a_plain_process_has_the_kernel_behind_it() {
    let running = child::start("say_the_grade");
    assert_eq!(running.told("grade"), "Kernel");
    let running = child::start("require_the_backstop");
    assert_eq!(running.told("refused"), "false");
}

#[test]
fn without_a_timer_best_effort_says_so_and_required_refuses() {
    let running = child::start_under(WITHOUT_TIMERS, "say_the_grade");
    assert_eq!(running.told("grade"), "Thread");
    let running = child::start_under(WITHOUT_TIMERS, "require_the_backstop");
    assert_eq!(running.told("refused"), "true");
}

#[test]
fn what_is_not_wanted_is_not_granted() {
    let off = config().with_backstop(Backstop::Off);
    assert_eq!(Watchdog::start(off).unwrap().grade(), Grade::Thread);
    let advisory = config().with_policy(Policy::CancelOnly);
    assert_eq!(Watchdog::start(advisory).unwrap().grade(), Grade::Thread);
}
