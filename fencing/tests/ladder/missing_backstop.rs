//! A system that grants no timer, or no thread.
#![expect(
    unsafe_code,
    reason = "a process can limit itself only by the C library"
)]

use std::fs::{self, Permissions};
use std::os::unix::fs::PermissionsExt;

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
#[cfg_attr(fencing_portable, ignore = "there is no kernel timer")]
fn a_plain_process_has_the_kernel_behind_it() {
    let running = child::start("say_the_grade");
    assert_eq!(running.told("grade"), "Kernel");
    let running = child::start("require_the_backstop");
    assert_eq!(running.told("refused"), "false");
}

#[test]
#[cfg_attr(fencing_portable, ignore = "there is no kernel timer")]
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

/// Leaves this process this many threads, those that it has included.
fn limit_threads(count: u64) {
    // Nothing binds root: be nobody, who can write to the folder all the same.
    let folder = child::shared("refused");
    fs::set_permissions(folder.parent().unwrap(), Permissions::from_mode(0o777)).unwrap();
    let nobody = 65_534;
    let limit = libc::rlimit {
        rlim_cur: count,
        rlim_max: count,
    };
    // SAFETY: numbers, and a pointer to a live value.
    unsafe {
        assert!(libc::geteuid() != 0 || libc::setresuid(nobody, nobody, nobody) == 0);
        assert_eq!(libc::setrlimit(libc::RLIMIT_NPROC, &raw const limit), 0);
    }
}

fn threads() -> usize {
    fs::read_dir("/proc/self/task").unwrap().count()
}

pub(crate) fn start_without_threads() {
    let before = threads();
    limit_threads(0);
    let every = [
        config(),
        // Without a timer this one fails for its want.
        #[cfg(not(fencing_portable))]
        config().with_backstop(Backstop::Required),
        config().with_backstop(Backstop::Off),
        config().with_policy(Policy::CancelOnly),
    ];
    for config in every {
        let error = Watchdog::start(config).unwrap_err();
        assert!(matches!(error, StartError::Thread(_)), "{error:?}");
    }
    assert_eq!(threads(), before);
    child::tell(
        "refused",
        &Watchdog::start(config()).unwrap_err().to_string(),
    );
}

/// Nothing could cancel, so there is no mode in which this is good enough.
#[test]
fn without_a_thread_no_watchdog_starts_and_the_error_says_so() {
    let running = child::start("start_without_threads");
    let text = running.told("refused");
    assert_eq!(text, "the system grants the watchdog no thread");
}
