//! What asking the guard costs.
//!
//! Claims: `Guard::check` costs at most twice what its parts cost by hand, one reading of the
//! suspend-aware clock and one atomic load; a renewal, which sets the kernel's timer anew,
//! takes less than a microsecond; `Fence::admit` of the token that is being admitted costs at
//! most four times one atomic maximum, which is the least that a resource without a fence
//! would pay to remember the highest token; the layers of `fencing::tower` cost less than a
//! microsecond a call, each.
//!
//! Baselines: `clock_gettime(CLOCK_BOOTTIME)` and an atomic load, compared; `fetch_max` on
//! one `AtomicU64`; the same request to the same service without a layer. In the same run.
//!
//! How to read: `fence/check` beside `fence/bare clock and load`. The last lines give both
//! ratios from the fastest of many batches, which a busy machine disturbs least; in an
//! optimized build the run fails when a claim does not hold. `fence/permit` takes a lock
//! twice, for the count that `finish` waits for; `fence/extend` is one system call.
//! `fence/admit and drop` includes giving the admission back, which the claim leaves out.

use std::convert::Infallible;
use std::hint::black_box;
use std::sync::atomic::{AtomicU64, Ordering};
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use bytes::Bytes;
use criterion::{Criterion, criterion_group};
use fencing::tower::{ClientLayer, ServerLayer};
use fencing::{Admission, Backstop, Fence, Grade, Guard, Watchdog, WatchdogConfig, boot_time};
use http::{Request, Response};
use http_body_util::{BodyExt, Full};
use rustix::time::{ClockId, clock_gettime};
use tower::{Service, service_fn};
use tower_layer::Layer;

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
    let highest = AtomicU64::new(0);
    group.bench_function("bare maximum", |bencher| {
        bencher.iter(|| black_box(&highest).fetch_max(black_box(7), Ordering::SeqCst));
    });
    let fence = Fence::new();
    group.bench_function("admit and drop", |bencher| {
        bencher.iter(|| drop(admit(black_box(&fence))));
    });
    group.finish();
    finish(&guard);
}

/// Admits at once, which is in the first poll.
fn admit(fence: &Fence) -> Admission {
    let admitted = std::pin::pin!(fence.admit(black_box(7)));
    let mut cx = Context::from_waker(Waker::noop());
    match admitted.poll(&mut cx) {
        Poll::Ready(admission) => admission.expect("the only token"),
        Poll::Pending => unreachable!("nothing is in the way"),
    }
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
    admission_claims();
    layer_claims();
    println!("check {check:.1} ns, bare {bare:.1} ns: {ratio:.2} times; extend {extend:.0} ns");
    if !cfg!(debug_assertions) {
        assert!(ratio <= 2.0, "a check costs {ratio:.2} times its parts");
        assert!(extend < 1_000.0, "a renewal takes {extend:.0} ns");
    }
}

fn admission_claims() {
    let highest = AtomicU64::new(0);
    let bare = fastest(|| {
        black_box(&highest).fetch_max(black_box(7), Ordering::SeqCst);
    });
    let fence = Fence::new();
    let both = fastest(|| drop(admit(black_box(&fence))));
    // Kept for ever: to put it away somewhere costs more than it does on some CPUs, whose
    // next atomic operation waits for what was written.
    let admit = fastest(|| std::mem::forget(black_box(admit(black_box(&fence)))));
    let ratio = admit / bare;
    println!(
        "maximum {bare:.1} ns, admit {admit:.1} ns: {ratio:.2} times; with the drop {both:.1} ns"
    );
    if !cfg!(debug_assertions) {
        assert!(
            ratio <= 4.0,
            "an admission costs {ratio:.2} times a maximum"
        );
    }
}

/// One call, with its answer read to the end.
fn call<S, B>(service: &mut S)
where
    S: Service<Request<Full<Bytes>>, Response = Response<B>, Error: std::fmt::Debug>,
    B: http_body::Body + Unpin,
{
    let request = Request::post("/orders").header("fencing-token", "7");
    let request = request.body(Full::new(Bytes::from_static(b"write")));
    let request = request.expect("a request");
    let mut cx = Context::from_waker(Waker::noop());
    assert!(service.poll_ready(&mut cx).is_ready());
    let answered = std::pin::pin!(service.call(request));
    let Poll::Ready(Ok(response)) = answered.poll(&mut cx) else {
        unreachable!("the service answers at once");
    };
    let mut body = response.into_body();
    while !body.is_end_stream() {
        let frame = std::pin::pin!(body.frame());
        if let Poll::Ready(None) = frame.poll(&mut cx) {
            break;
        }
    }
}

fn layer_claims() {
    let (_watchdog, guard) = guarded();
    let mut bare = service_fn(answer);
    let bare = fastest(|| call(&mut bare));
    let mut client = ClientLayer::new(guard.clone())
        .with_scope("a3f0/meta")
        .layer(service_fn(answer));
    let client = fastest(|| call(&mut client)) - bare;
    let mut server = ServerLayer::new(Fence::new()).layer(service_fn(answer));
    let server = fastest(|| call(&mut server)) - bare;
    finish(&guard);
    println!("a call {bare:.0} ns; client layer {client:+.0} ns, server layer {server:+.0} ns");
    if !cfg!(debug_assertions) {
        assert!(client < 1_000.0, "the client layer costs {client:.0} ns");
        assert!(server < 1_000.0, "the server layer costs {server:.0} ns");
    }
}

async fn answer<B>(request: Request<B>) -> Result<Response<Full<Bytes>>, Infallible> {
    black_box(request);
    Ok(Response::new(Full::new(Bytes::from_static(b"done"))))
}

/// Finishes a guard of which no permit is held: it does so in the first poll.
fn finish(guard: &Guard) {
    let finished = std::pin::pin!(guard.finish());
    let mut cx = Context::from_waker(Waker::noop());
    assert!(finished.poll(&mut cx).is_ready());
}

criterion_group!(benches, fence);

fn main() {
    benches();
    Criterion::default().configure_from_args().final_summary();
    claims();
}
