//! Workers that are lost and back at once.
//!
//! Claim: the pool has N sessions again about as soon as N loops written by hand, though it
//! dials at most 64 at a time, bounds each attempt and takes the older session over in
//! order. This is a comparison, not a goal: what the pool must keep (1,000 workers cold
//! within 5 s, and back within 10 s of a server that was away for 10 s) is checked by
//! `compare storm`.
//!
//! Baseline: `loops`, a task for each worker that dials again at once when its stream ends
//! and 100 ms after a failed attempt, without any bound.
//!
//! How to read it: time from the order to cut all connections until each worker was seen
//! lost and has a session again; the server goes on to listen. Where both ends of a
//! connection see its end at different moments, one attempt may fail and cost its 100 ms.

use std::time::{Duration, Instant};

use benches::{
    Flavor, Keeper, Loops, Plan, Pooled, Server, Service, raise_file_limit, serve_if_asked,
};
use criterion::{BenchmarkGroup, Criterion, SamplingMode, measurement::WallTime};
use tokio::runtime::Runtime;

fn main() {
    if serve_if_asked() {
        return;
    }
    raise_file_limit();
    let mut criterion = Criterion::default()
        .sample_size(10)
        .warm_up_time(Duration::from_millis(500))
        .measurement_time(Duration::from_secs(4))
        .configure_from_args();
    for workers in [1, 100, 1000] {
        let mut group = criterion.benchmark_group(format!("reconnect/{workers}"));
        group.sampling_mode(SamplingMode::Flat);
        let runtime = Flavor::Multi.runtime();
        let server = Server::start(Plan::new(Service::Acceptor, Flavor::Multi, workers));
        let pool = runtime.block_on(Pooled::connect(&server));
        lost_and_back(&mut group, &runtime, "pool", pool, server);
        let server = Server::start(Plan::new(Service::Plain, Flavor::Multi, workers));
        let loops = runtime.block_on(Loops::connect(&server));
        lost_and_back(&mut group, &runtime, "loops", loops, server);
        group.finish();
    }
    criterion.final_summary();
}

#[expect(
    clippy::disallowed_methods,
    reason = "what is measured is the machine's time"
)]
fn lost_and_back<K: Keeper>(
    group: &mut BenchmarkGroup<'_, WallTime>,
    runtime: &Runtime,
    name: &str,
    mut keeper: K,
    mut server: Server,
) {
    let mut epoch = 0;
    group.bench_function(name, |bencher| {
        bencher.iter_custom(|times| {
            let mut taken = Duration::ZERO;
            for _ in 0..times {
                epoch += 1;
                runtime.block_on(keeper.use_all(epoch));
                let start = Instant::now();
                server.cut();
                runtime.block_on(keeper.lost_and_back(server.workers()));
                taken += start.elapsed();
            }
            taken
        });
    });
}
