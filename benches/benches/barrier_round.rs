//! Barrier rounds: a message to each of N workers, and the answer of each.
//!
//! Claim: from 64 workers on a round of the pool is not slower than one over streams
//! written by hand, and at least three times faster than two unary calls per worker.
//!
//! Baseline: `raw`, tonic's bidirectional streams with one channel, one task and one queue
//! for each worker; `unary`, a call to inject and a call to collect, each to all workers at
//! once over connections that are kept; `floor`, tokio's queues in one process. Messages
//! of 64 bytes, workers in a process of their own.
//!
//! How to read it: time of one round; divide by N for the time of a worker. Compare rows
//! of one group, in the same run only; the ratios that are believed come from `compare`,
//! which interleaves. N = 1 and 8 run with both processes on one CPU. `raw` must be five to
//! ten times faster than `unary` at N = 1000, else the baseline is wrong.

use std::time::Duration;

use benches::{
    Flavor, Floor, Plan, Pooled, Raw, Rounds, Server, Service, Unary, pin, raise_file_limit,
    serve_if_asked, unpin,
};
use criterion::{BenchmarkGroup, Criterion, measurement::WallTime};
use tokio::runtime::Runtime;

/// Size of a barrier, bytes.
const BARRIER_BYTES: usize = 64;

fn main() {
    if serve_if_asked() {
        return;
    }
    raise_file_limit();
    let mut criterion = Criterion::default()
        .sample_size(10)
        .measurement_time(Duration::from_secs(4))
        .configure_from_args();
    for workers in [1, 8, 64, 256, 1000] {
        let before = (workers < 64).then(pin);
        group(&mut criterion, workers);
        if let Some(before) = before {
            unpin(&before);
        }
    }
    criterion.final_summary();
}

fn group(criterion: &mut Criterion, workers: usize) {
    let flavor = if workers < 64 {
        Flavor::Current
    } else {
        Flavor::Multi
    };
    let mut group = criterion.benchmark_group(format!("barrier_round/{workers}"));
    let runtime = flavor.runtime();
    let server = Server::start(Plan::new(Service::Acceptor, flavor, workers));
    let pool = runtime.block_on(Pooled::connect(&server));
    round(&mut group, &runtime, "pool", pool);
    let server = Server::start(Plan::new(Service::Plain, flavor, workers));
    let raw = runtime.block_on(Raw::connect(&server));
    round(&mut group, &runtime, "raw", raw);
    let unary = runtime.block_on(Unary::connect(&server));
    round(&mut group, &runtime, "unary", unary);
    let floor = runtime.block_on(async { Floor::start(workers) });
    round(&mut group, &runtime, "floor", floor);
    group.finish();
}

fn round<F: Rounds>(
    group: &mut BenchmarkGroup<'_, WallTime>,
    runtime: &Runtime,
    name: &str,
    mut fleet: F,
) {
    let mut epoch = 0;
    group.bench_function(name, |bencher| {
        bencher.iter(|| {
            epoch += 1;
            runtime.block_on(fleet.round(epoch, BARRIER_BYTES));
        });
    });
}
