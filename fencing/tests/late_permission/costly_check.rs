//! What a check and a renewal cost.
#![expect(unsafe_code, reason = "an allocator is unsafe to implement")]

use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;
use std::fs;
use std::hint::black_box;
use std::thread;
use std::time::Duration;

use fencing::{Watchdog, WatchdogConfig, boot_time};

use crate::support::{ms, wait};

thread_local! {
    static ALLOCATIONS: Cell<u64> = const { Cell::new(0) };
}

struct Counting;

// SAFETY: the system's allocator does it all.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        ALLOCATIONS.set(ALLOCATIONS.get() + 1);
        // SAFETY: as the caller promises.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, pointer: *mut u8, layout: Layout) {
        ALLOCATIONS.set(ALLOCATIONS.get() + 1);
        // SAFETY: as the caller promises.
        unsafe { System.dealloc(pointer, layout) }
    }
}

#[global_allocator]
static COUNTING: Counting = Counting;

fn allocations(act: impl FnOnce()) -> u64 {
    let before = ALLOCATIONS.get();
    act();
    ALLOCATIONS.get() - before
}

/// Check 1, and the same for all that work calls often.
#[test]
fn checks_permits_and_renewals_do_not_allocate() {
    let watchdog = Watchdog::start(WatchdogConfig::default()).unwrap();
    let guard = watchdog
        .guard(1, boot_time() + Duration::from_secs(60))
        .unwrap();
    let counted = allocations(|| {
        for _ in 0..100_000 {
            guard.check().unwrap();
            let permit = guard.permit().unwrap();
            permit.check().unwrap();
            drop(permit);
            black_box(guard.remaining());
            guard.extend(boot_time() + Duration::from_secs(60));
        }
    });
    assert_eq!(counted, 0);
    // Proves that it counts.
    assert_eq!(allocations(|| drop(black_box(Box::new(1)))), 2);
    wait(guard.finish());
}

/// The time that this process's watchdog threads have run, by the kernel's account.
fn busy_time() -> Duration {
    let tasks = fs::read_dir("/proc/self/task").unwrap();
    let busy = tasks.filter_map(|task| {
        let folder = task.ok()?.path();
        let name = fs::read_to_string(folder.join("comm")).ok()?;
        let account = fs::read_to_string(folder.join("schedstat")).ok()?;
        let nanos: u64 = account.split(' ').next()?.parse().ok()?;
        (name.trim() == "fence-watchdog" || name.trim() == "fence-herald").then_some(nanos)
    });
    Duration::from_nanos(busy.sum())
}

/// Check 30: three renewals a second. The bound is ten times the aim, for busy machines;
/// the figure is printed.
#[test]
#[cfg(target_os = "linux")]
fn the_watchdogs_threads_sleep_while_the_lease_is_renewed() {
    let watchdog = Watchdog::start(WatchdogConfig::for_ttl(ms(1_000))).unwrap();
    let guard = watchdog.guard(1, boot_time() + ms(1_000)).unwrap();
    let (start, before) = (boot_time(), busy_time());
    for _ in 0..crate::rounds(9, 90) {
        thread::sleep(ms(333));
        guard.extend(boot_time() + ms(1_000));
    }
    let (busy, took) = (busy_time() - before, boot_time() - start);
    guard.check().unwrap();
    wait(guard.finish());
    let share = busy.as_secs_f64() / took.as_secs_f64();
    println!(
        "{:.4} % of a processor at three renewals a second",
        100.0 * share
    );
    assert!(share > 0.0, "the threads were not found");
    assert!(share < 0.01, "{share}");
}
