//! Campaign and resign without a rival.
//!
//! Claim: a cycle of the crate takes at most 1.2 times as long as the same operations
//! issued by hand, one after the other.
//!
//! Baselines: `raw`, those operations (grant, put, read who is ahead, renew, read that the
//! key is there, delete, revoke); `call`, etcd's own election call on a lease that is kept,
//! which neither grants, renews, checks nor revokes, and can report a win without a key;
//! `two`, a put and a delete, the least that can be called a cycle.
//!
//! How to read it: the time of one cycle on a local etcd of the bench's own, in a temporary
//! folder; its disk is part of each write. Groups are measured one after the other, so
//! compare by `compare_election`, which interleaves them, and has the hand-over and the
//! failover beside those of `etcdctl elect`.

use std::time::Duration;

use benches::{Cycle, ElectionCall, Etcd, Flavor, Ours, RawCalls, TwoTxns};
use criterion::{BenchmarkGroup, Criterion, SamplingMode, measurement::WallTime};
use tokio::{runtime::Runtime, time::Instant};

fn main() {
    let mut criterion = Criterion::default()
        .sample_size(20)
        .warm_up_time(Duration::from_millis(500))
        .measurement_time(Duration::from_secs(4))
        .configure_from_args();
    let runtime = Flavor::Multi.runtime();
    let etcd = runtime.block_on(Etcd::start());
    let mut group = criterion.benchmark_group("election/cycle");
    group.sampling_mode(SamplingMode::Flat);
    let ours = runtime.block_on(Ours::connect(&etcd));
    cycles(&mut group, &runtime, "ours", ours);
    let raw = runtime.block_on(RawCalls::connect(&etcd));
    cycles(&mut group, &runtime, "raw", raw);
    let call = runtime.block_on(ElectionCall::connect(&etcd));
    cycles(&mut group, &runtime, "call", call);
    let two = runtime.block_on(TwoTxns::connect(&etcd));
    cycles(&mut group, &runtime, "two", two);
    group.finish();
    criterion.final_summary();
}

fn cycles<C: Cycle>(
    group: &mut BenchmarkGroup<'_, WallTime>,
    runtime: &Runtime,
    name: &str,
    mut who: C,
) {
    group.bench_function(name, |bencher| {
        bencher.iter_custom(|times| {
            runtime.block_on(async {
                let start = Instant::now();
                for _ in 0..times {
                    who.cycle().await;
                }
                start.elapsed()
            })
        });
    });
}
