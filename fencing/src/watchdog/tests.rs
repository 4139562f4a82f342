use std::future::Future;
use std::thread;

use super::*;
use crate::boot_time;

/// The thread looks at a guard this much before its kill point is due, and some more.
const LEAD: Duration = Duration::from_millis(2_600);

/// A renewal is held up for ever between its change of the guard and the timer. Without
/// the watchdog's thread, the kernel would end this healthy process at the old kill point.
#[test]
fn the_thread_sets_the_timer_for_a_caller_that_is_held_up() {
    let config = WatchdogConfig::default();
    let watchdog = Watchdog::start(config).unwrap();
    let deadline = boot_time() + LEAD;
    let guard = watchdog.guard(1, deadline).unwrap();
    let later = deadline + Duration::from_secs(3600);
    let record = watchdog.slot.get().unwrap();
    assert_eq!(record.cell().extend(later), GuardState::Live);
    while boot_time() < deadline + Duration::from_millis(50) {
        thread::sleep(Duration::from_millis(10));
    }
    guard.check().unwrap();
    guard.extend(later);
    finish(&guard);
}

/// Its finisher is held up between the change of the guard and the timer.
#[test]
fn the_thread_disarms_for_a_caller_that_is_held_up() {
    let config = WatchdogConfig::default();
    let watchdog = Watchdog::start(config).unwrap();
    let deadline = boot_time() + LEAD;
    let guard = watchdog.guard(1, deadline).unwrap();
    watchdog.slot.get().unwrap().cell().finish();
    while boot_time() < deadline + Duration::from_millis(50) {
        thread::sleep(Duration::from_millis(10));
    }
    assert_eq!(guard.state(), GuardState::Finished);
}

fn finish(guard: &Guard) {
    let finished = std::pin::pin!(guard.finish());
    let mut cx = std::task::Context::from_waker(std::task::Waker::noop());
    assert!(finished.poll(&mut cx).is_ready());
}
