use std::future::Future;
use std::process::{Command, ExitStatus, Stdio};
use std::{panic, thread};

use super::*;
use crate::boot_time;
use crate::config::EXIT_CODE;

use super::thread::or_end;

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

/// Says in which child a test is, and how its panic hook is.
const HOOK: &str = "FENCING_TEST_PANIC_HOOK";

/// A guard whose watchdog's thread panics: nobody but the kernel acts on it then.
#[test]
#[ignore = "started by other tests, in a child"]
fn child_whose_watchdog_panics() {
    let config = WatchdogConfig::default();
    let (watchdog, _) = Watchdog::simulated(config.clone(), boot_time).unwrap();
    let dead_man = Arc::new(dead_man(&config).unwrap());
    let watchdog = Watchdog {
        dead_man,
        ..watchdog
    };
    let guard = watchdog.guard(1, boot_time() + LEAD).unwrap();
    match std::env::var(HOOK).unwrap().as_str() {
        "blocks" => panic::set_hook(Box::new(|_| block())),
        "trips" => {
            panic::set_hook(Box::new(|_| block()));
            guard.trip();
        }
        _ => {}
    }
    thread::spawn(|| or_end(Policy::Abort, || panic!("the test asked for it")));
    // Longer than anything should take.
    thread::sleep(Duration::from_secs(60));
}

fn block() -> ! {
    loop {
        thread::park();
    }
}

fn panicking(hook: &str) -> ExitStatus {
    let name = "watchdog::tests::child_whose_watchdog_panics";
    let mut command = Command::new(std::env::current_exe().unwrap());
    command.args([name, "--exact", "--ignored", "--nocapture"]);
    command.stdout(Stdio::null()).stderr(Stdio::null());
    command.env(HOOK, hook).status().unwrap()
}

#[test]
#[cfg(unix)]
fn a_panic_in_the_thread_ends_the_process_at_once() {
    let start = boot_time();
    assert_eq!(panicking("prints").code(), Some(EXIT_CODE));
    let took = boot_time() - start;
    assert!(took < LEAD, "by the kernel's timer? after {took:?}");
}

/// A panic hook runs on the thread that panics, before anything else can.
#[test]
#[cfg(all(target_os = "linux", not(fencing_portable)))]
fn a_panic_hook_that_blocks_the_thread_leaves_it_to_the_kernel() {
    use std::os::unix::process::ExitStatusExt;

    assert_eq!(panicking("blocks").signal(), Some(9));
    // A loss that is told is not left to the kill point.
    let start = boot_time();
    assert_eq!(panicking("trips").signal(), Some(9));
    let took = boot_time() - start;
    assert!(took < LEAD, "at the kill point? after {took:?}");
}
