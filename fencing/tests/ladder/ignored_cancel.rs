//! Work that ignores the cancellation.

use std::sync::{Arc, Mutex};
use std::thread;
use std::time::Duration;

use fencing::{EXIT_CODE, boot_time};

use crate::{LEAD, block, child, config, guard};

/// One thread loops, one sleeps, one holds a lock that the third wants.
fn work_without_listening() {
    thread::spawn(|| {
        loop {
            std::hint::spin_loop();
        }
    });
    thread::spawn(|| thread::sleep(Duration::from_secs(3600)));
    let lock = Arc::new(Mutex::new(()));
    let held = lock.clone();
    thread::spawn(move || {
        let _held = held.lock();
        block()
    });
    thread::spawn(move || drop(lock.lock()));
}

pub(crate) fn ignore_cancellation() {
    // Some of the grace is left on a busy machine, too.
    let config = config().with_grace(LEAD - config().abort_budget - Duration::from_millis(50));
    let (_watchdog, guard) = guard(config);
    let _permits = (guard.permit().unwrap(), guard.permit().unwrap());
    work_without_listening();
    let cancelled = guard.cancelled();
    thread::spawn(move || {
        let runtime = tokio::runtime::Builder::new_current_thread().build();
        runtime.unwrap().block_on(cancelled);
        child::tell("cleaned", &boot_time().as_nanos().to_string());
    });
    block()
}

/// F03 by expiry: who listens can clean up, and the process ends in time all the same.
#[test]
fn f03_work_that_ignores_the_cancellation_ends_with_the_process() {
    let mut held = 0;
    // On a busy machine the kernel may be faster than the words.
    for _ in 0..10 {
        let running = child::start("ignore_cancellation");
        let cleaned = Duration::from_nanos(running.told("cleaned").parse().unwrap());
        let ended = running.wait();
        ended.assert_fenced();
        assert!(Some(cleaned) < ended.deadline, "cleaned up too late");
        held = ended.stderr.matches("; permits held: 2\n").count();
        if ended.status.code() == Some(EXIT_CODE) {
            let lines = ended.stderr.lines();
            let ours: Vec<&str> = lines.filter(|line| line.starts_with("fencing:")).collect();
            assert_eq!(ours.len(), 1, "{ended:?}");
            let reason = "exit 75: leadership 7 was not renewed in time";
            assert!(ours[0].contains(reason), "{ended:?}");
            assert_eq!(held, 1, "{ended:?}");
            break;
        }
    }
    println!("CASE F03 fault={held}");
    assert!(held > 0, "the thread was never in time");
}

pub(crate) fn lose_while_working() {
    let (_watchdog, guard) = guard(config());
    let _permit = guard.permit().unwrap();
    work_without_listening();
    child::tell("lost", &boot_time().as_nanos().to_string());
    guard.trip();
    block()
}

/// F03 by revocation: no clean-up is promised, the end is at once.
#[test]
fn a_loss_that_is_told_ends_the_process_at_once() {
    let running = child::start("lose_while_working");
    let lost = Duration::from_nanos(running.told("lost").parse().unwrap());
    let ended = running.wait();
    ended.assert_fenced();
    assert!(
        ended
            .stderr
            .contains("leadership 7 was lost; permits held: 1"),
        "{ended:?}"
    );
    // 50 ms where the machine is idle; the kernel's timer comes 150 ms after a loss.
    let after = ended.at - lost;
    println!("dead {after:?} after the loss");
    assert!(after < Duration::from_millis(250), "{after:?}");
}
