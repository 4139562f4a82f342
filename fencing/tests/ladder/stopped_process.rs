//! A process that is stopped beyond its lease.

use std::thread;
use std::time::Duration;

use fencing::boot_time;

use crate::{LEAD, block, child, config, guard};

pub(crate) fn spin() {
    let (_watchdog, guard) = guard(config());
    let _permit = guard.permit().unwrap();
    block()
}

/// Check 6: the kernel ends what is stopped, without waking it.
#[test]
#[cfg_attr(fencing_portable, ignore = "there is no kernel timer")]
fn a_stopped_process_is_ended_by_the_kernel() {
    let rounds = child::rounds(4, 20);
    let mut killed = 0;
    for round in 0..rounds {
        let running = child::start("spin");
        let deadline = running.deadline();
        // At random points over the whole lease, up to its cancel point.
        let pause =
            (LEAD - Duration::from_millis(350)).mul_f64(f64::from(round) / f64::from(rounds));
        thread::sleep(pause);
        running.signal("STOP");
        let ended = running.wait();
        assert!(ended.is_killed(), "{ended:?}");
        let late = ended.at.saturating_sub(deadline);
        assert!(late < Duration::from_millis(500), "{late:?}");
        killed += 1;
    }
    // The kernel itself counts them: each status is that of signal 9.
    println!("CASE F02 fault={killed}");
}

pub(crate) fn renew_for_ever() {
    let (_watchdog, guard) = guard(config());
    for _ in 0..2_000 {
        guard.extend(boot_time() + LEAD);
        guard.check().unwrap();
        thread::sleep(Duration::from_millis(1));
    }
}

/// Renewals race with the timer all the time: a healthy process lives.
#[test]
#[cfg_attr(fencing_portable, ignore = "there is no kernel timer")]
fn a_process_that_renews_is_never_ended() {
    let ended = child::run("renew_for_ever");
    assert_eq!(ended.status.code(), Some(0), "{ended:?}");
}
