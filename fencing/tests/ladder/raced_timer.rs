//! Renewals that race with each other and with a loss, on the real timer.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Duration;

use fencing::{Guard, Watchdog, boot_time};

use crate::wrong_end::finish;
use crate::{child, config, guard};

const RENEWERS: u32 = 4;
/// Long enough for a busy machine to run one of the threads in time.
const LEAD: Duration = Duration::from_secs(2);

/// Renews all the time, each thread to other deadlines, nearer and farther ones.
fn renew(guard: &Guard, renewer: u32, is_over: &AtomicBool) {
    let mut step = 0_u32;
    while !is_over.load(Ordering::SeqCst) {
        step += 1;
        let lead = LEAD + Duration::from_micros(u64::from((step * 7 + renewer * 13) % 400));
        guard.extend(boot_time() + lead);
        if step.is_multiple_of(64) {
            thread::sleep(Duration::from_millis(1));
        }
    }
}

fn race(guard: &Guard) -> (Arc<AtomicBool>, Vec<thread::JoinHandle<()>>) {
    let is_over = Arc::new(AtomicBool::new(false));
    let renewers = (0..RENEWERS).map(|renewer| {
        let (guard, is_over) = (guard.clone(), Arc::clone(&is_over));
        thread::spawn(move || renew(&guard, renewer, &is_over))
    });
    let renewers = renewers.collect();
    (is_over, renewers)
}

pub(crate) fn race_renewals() {
    let watchdog = Watchdog::start(config().with_grace(Duration::ZERO)).unwrap();
    for token in 1..3 {
        let guard = watchdog.guard(token, boot_time() + LEAD).unwrap();
        let (is_over, renewers) = race(&guard);
        // Beyond the first kill point.
        thread::sleep(LEAD + LEAD / 4);
        guard.check().unwrap();
        is_over.store(true, Ordering::SeqCst);
        // The last renewals race with the end, and with the next guard's beginning.
        finish(&guard);
        let next = watchdog.guard(100 + token, boot_time() + LEAD).unwrap();
        for renewer in renewers {
            renewer.join().unwrap();
        }
        finish(&next);
    }
    // Beyond the last kill point.
    thread::sleep(LEAD);
}

#[test]
fn renewals_that_race_never_end_a_healthy_process() {
    for _ in 0..child::rounds(1, 50) {
        let ended = child::run("race_renewals");
        assert_eq!(ended.status.code(), Some(0), "{ended:?}");
    }
}

pub(crate) fn race_a_loss() {
    let (_watchdog, guard) = guard(config());
    let (_is_over, renewers) = race(&guard);
    let nanos = u64::from(boot_time().subsec_nanos());
    thread::sleep(Duration::from_nanos(nanos % 100_000_000));
    child::tell_deadline(boot_time() + Duration::from_millis(150));
    guard.trip();
    for renewer in renewers {
        renewer.join().unwrap();
    }
}

#[test]
fn a_loss_always_ends_the_process_whatever_renewals_race_with_it() {
    for _ in 0..child::rounds(5, 100) {
        let ended = child::run("race_a_loss");
        ended.assert_fenced();
    }
}
