//! What asking the guard costs.
//!
//! Claim: `Guard::check` costs at most twice what its parts cost by hand, one reading of the
//! suspend-aware clock and one atomic load; a renewal, which sets the kernel's timer anew,
//! takes less than a microsecond.
//!
//! Baseline: `clock_gettime(CLOCK_BOOTTIME)` and an atomic load, compared, in the same run.
//!
//! How to read: `fence/check` beside `fence/bare clock and load`. The last lines give both
//! ratios from the fastest of many batches, which a busy machine disturbs least; in an
//! optimized build the run fails when a claim does not hold. `fence/permit` takes a lock
//! twice, for the count that `finish` waits for; `fence/extend` is one system call.

use std::hint::black_box;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use criterion::{Criterion, criterion_group};
use fencing::{Backstop, Grade, Guard, Watchdog, WatchdogConfig, boot_time};
use rustix::time::{ClockId, clock_gettime};

const HOUR: Duration = Duration::from_secs(3_600);
const BATCHES: u32 = 200;
const BATCH: u32 = 10_000;

fn guarded() -> (Watchdog, Guard) {
    let config = WatchdogConfig::default().with_backstop(Backstop::Required);
    let watchdog = Watchdog::start(config).expect("the kernel grants a timer");
    assert_eq!(watchdog.grade(), Grade::Kernel);
    let guard = watchdog
        .guard(1, boot_time() + HOUR)
        .expect("a first guard");
    (watchdog, guard)
}

/// What a check consists of.
fn is_before(deadline: &AtomicU64) -> bool {
    let deadline = deadline.load(Ordering::SeqCst);
    let now = clock_gettime(ClockId::Boottime);
    (now.tv_sec as u64) * 1_000_000_000 + (now.tv_nsec as u64) < deadline
}

fn fence(criterion: &mut Criterion) {
    let (_watchdog, guard) = guarded();
    let deadline = AtomicU64::new(u64::MAX);
    let mut group = criterion.benchmark_group("fence");
    group.bench_function("bare clock and load", |bencher| {
        bencher.iter(|| black_box(is_before(black_box(&deadline))));
    });
    group.bench_function("check", |bencher| {
        bencher.iter(|| black_box(black_box(&guard).check().is_ok()));
    });
    group.bench_function("permit", |bencher| {
        bencher.iter(|| drop(black_box(black_box(&guard).permit())));
    });
    group.bench_function("extend", |bencher| {
        bencher.iter(|| black_box(&guard).extend(boot_time() + HOUR));
    });
    group.finish();
    finish(&guard);
}

/// Nanoseconds of one call, in the fastest batch.
fn fastest(mut call: impl FnMut()) -> f64 {
    let batches = (0..BATCHES).map(|_| {
        let start = boot_time();
        for _ in 0..BATCH {
            call();
        }
        boot_time() - start
    });
    let fastest = batches.min().expect("some batches");
    fastest.as_secs_f64() * 1e9 / f64::from(BATCH)
}

fn claims() {
    let (_watchdog, guard) = guarded();
    let deadline = AtomicU64::new(u64::MAX);
    let bare = fastest(|| {
        black_box(is_before(black_box(&deadline)));
    });
    let check = fastest(|| {
        black_box(black_box(&guard).check().is_ok());
    });
    let extend = fastest(|| black_box(&guard).extend(boot_time() + HOUR));
    finish(&guard);
    let ratio = check / bare;
    println!("check {check:.1} ns, bare {bare:.1} ns: {ratio:.2} times; extend {extend:.0} ns");
    if !cfg!(debug_assertions) {
        assert!(ratio <= 2.0, "a check costs {ratio:.2} times its parts");
        assert!(extend < 1_000.0, "a renewal takes {extend:.0} ns");
    }
}

/// Finishes a guard of which no permit is held: it does so in the first poll.
fn finish(guard: &Guard) {
    let finished = std::pin::pin!(guard.finish());
    let mut cx = std::task::Context::from_waker(std::task::Waker::noop());
    assert!(finished.poll(&mut cx).is_ready());
}

criterion_group!(benches, fence);

fn main() {
    benches();
    Criterion::default().configure_from_args().final_summary();
    claims();
}
