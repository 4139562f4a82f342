//! Messages over one or few sessions.
//!
//! Claim: a session of the pool carries messages as fast as a stream written by hand:
//! at least 0.95 of its round trips and of its 1 KiB messages, 0.9 of its 64-byte ones.
//!
//! Baseline: `raw`, tonic's bidirectional streams with one channel, one task and one queue
//! for each worker, the same queue length, windows and runtime, against a plain service;
//! `floor`, the same work over tokio's queues in one process.
//!
//! How to read it: compare `pool` with `raw` of the same group, in the same run only.
//! Criterion runs one after the other, so a drift of the machine is in the difference:
//! a ratio that is believed comes from `compare`, which interleaves. The round trips of
//! `ping_pong` run with both processes on one CPU.

use std::time::{Duration, Instant};

use benches::{
    Flavor, Fleet, Floor, Plan, Pooled, Raw, Server, Service, pin, ping_pong, raise_file_limit,
    serve_if_asked, streaming, unpin,
};
use criterion::{BenchmarkGroup, Criterion, Throughput, measurement::WallTime};
use tokio::runtime::Runtime;

/// Messages that are streamed for each iteration of a bench.
const STREAMED: u64 = 1000;

fn main() {
    if serve_if_asked() {
        return;
    }
    raise_file_limit();
    let mut criterion = Criterion::default()
        .sample_size(20)
        .measurement_time(Duration::from_secs(4))
        .configure_from_args();
    round_trips(&mut criterion);
    streams(&mut criterion);
    criterion.final_summary();
}

fn round_trips(criterion: &mut Criterion) {
    let before = pin();
    for size in [64, 1024] {
        let mut group = criterion.benchmark_group(format!("ping_pong/{size}B"));
        let runtime = Flavor::Current.runtime();
        let server = Server::start(Plan::new(Service::Acceptor, Flavor::Current, 1));
        let pool = runtime.block_on(Pooled::connect(&server));
        round_trip(&mut group, &runtime, "pool", pool, size);
        let server = Server::start(Plan::new(Service::Plain, Flavor::Current, 1));
        let raw = runtime.block_on(Raw::connect(&server));
        round_trip(&mut group, &runtime, "raw", raw, size);
        let floor = runtime.block_on(async { Floor::start(1) });
        round_trip(&mut group, &runtime, "floor", floor, size);
        group.finish();
    }
    unpin(&before);
}

fn round_trip<F: Fleet>(
    group: &mut BenchmarkGroup<'_, WallTime>,
    runtime: &Runtime,
    name: &str,
    mut fleet: F,
    size: usize,
) {
    group.bench_function(name, |bencher| {
        bencher.iter_custom(|times| {
            let times = times.try_into().unwrap_or(usize::MAX);
            timed(|| {
                runtime.block_on(ping_pong(&mut fleet, size, times));
            })
        });
    });
}

fn streams(criterion: &mut Criterion) {
    for (size, sessions) in [(64, 1), (64, 8), (1024, 1), (1024, 8)] {
        let mut group = criterion.benchmark_group(format!("stream/{size}B/x{sessions}"));
        group.throughput(Throughput::Elements(STREAMED * sessions as u64));
        let runtime = Flavor::Multi.runtime();
        let server = Server::start(Plan::new(Service::Acceptor, Flavor::Multi, sessions));
        let pool = runtime.block_on(Pooled::connect(&server));
        stream(&mut group, &runtime, "pool", pool, (size, sessions));
        let server = Server::start(Plan::new(Service::Plain, Flavor::Multi, sessions));
        let raw = runtime.block_on(Raw::connect(&server));
        stream(&mut group, &runtime, "raw", raw, (size, sessions));
        let floor = runtime.block_on(async { Floor::start(sessions) });
        stream(&mut group, &runtime, "floor", floor, (size, sessions));
        group.finish();
    }
}

fn stream<F: Fleet>(
    group: &mut BenchmarkGroup<'_, WallTime>,
    runtime: &Runtime,
    name: &str,
    mut fleet: F,
    (size, sessions): (usize, usize),
) {
    group.bench_function(name, |bencher| {
        bencher.iter_custom(|times| {
            timed(|| {
                runtime.block_on(streaming(&mut fleet, sessions, size, times * STREAMED));
            })
        });
    });
}

#[expect(
    clippy::disallowed_methods,
    reason = "what is measured is the machine's time"
)]
fn timed(work: impl FnOnce()) -> Duration {
    let start = Instant::now();
    work();
    start.elapsed()
}
