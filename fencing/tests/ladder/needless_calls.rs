//! System calls on the path of work, as strace counts them.

use std::fs;
use std::time::Duration;

use fencing::{Backstop, boot_time};
use tempfile::TempDir;

use crate::child;
use crate::wrong_end::finish;

const CHECKS: u32 = 1_000_000;
const RENEWALS: usize = 1_000;
const MARKS: [&str; 3] = [
    "/mark-before-checks",
    "/mark-after-checks",
    "/mark-after-renewals",
];

/// Shows in the trace: there is no such file.
fn mark(name: &str) {
    fs::metadata(name).unwrap_err();
}

pub(crate) fn check_between_marks() {
    let config = crate::config().with_backstop(Backstop::Required);
    let watchdog = fencing::Watchdog::start(config).unwrap();
    let hour = Duration::from_secs(3_600);
    let guard = watchdog.guard(7, boot_time() + hour).unwrap();
    mark(MARKS[0]);
    for _ in 0..CHECKS {
        guard.check().unwrap();
    }
    mark(MARKS[1]);
    for _ in 0..RENEWALS {
        guard.extend(boot_time() + hour);
    }
    mark(MARKS[2]);
    finish(&guard);
}

/// Check 1: a check makes none, a renewal makes the one that sets the kernel's timer.
#[test]
#[cfg_attr(fencing_portable, ignore = "there is no kernel timer")]
fn a_check_makes_no_system_call_and_a_renewal_makes_one() {
    let folder = TempDir::new().unwrap();
    let trace = folder.path().join("trace");
    let under = ["strace", "-f", "-o", trace.to_str().unwrap()];
    let ended = child::start_under(&under, "check_between_marks").wait();
    assert_eq!(ended.status.code(), Some(0), "{ended:?}");
    let trace = fs::read_to_string(trace).unwrap();
    let caller = trace.lines().find(|line| line.contains(MARKS[0])).unwrap();
    let caller = caller.split(' ').next().unwrap();
    let calls: Vec<&str> = trace
        .lines()
        .filter(|line| line.split(' ').next() == Some(caller))
        // The second half of a line that another thread's has interrupted.
        .filter(|line| !line.contains(" resumed>"))
        .collect();
    let at = MARKS.map(|name| calls.iter().position(|call| call.contains(name)).unwrap());
    assert_eq!(at[1] - at[0] - 1, 0, "{:?}", &calls[at[0]..=at[1]]);
    let renewing = &calls[at[1] + 1..at[2]];
    let settings = renewing
        .iter()
        .filter(|call| call.contains("timer_settime("));
    assert_eq!(settings.count(), RENEWALS);
    assert_eq!(renewing.len(), RENEWALS);
    println!(
        "{CHECKS} checks: 0 system calls; {RENEWALS} renewals: {}",
        renewing.len()
    );
}
