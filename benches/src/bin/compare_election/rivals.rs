//! From the end of one leader to the begin of the next, both of them processes.

use std::{thread, time::Duration};

use benches::Etcd;
use tokio::time::Instant;

use crate::process::{Candidate, Kind};

/// How long the next one has waited: any hand-over this soon after it began to wait would
/// measure the wait of `etcdctl` for the rounds of etcd, each 100 ms.
const QUEUED: Duration = Duration::from_millis(500);
/// How often `etcdctl` renews its lease of 60 s, and a candidate of ours one as long.
const RENEWALS: Duration = Duration::from_secs(20);

/// How a leader ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum End {
    Resign,
    Kill,
}

/// Returns the milliseconds from the end of the first to the word of the second.
pub(crate) fn change(
    kind: Kind,
    etcd: &Etcd,
    name: &str,
    ttl: u64,
    end: End,
    led: Duration,
) -> f64 {
    let mut first = Candidate::start(kind, etcd, name, ttl);
    first.leads();
    let mut second = Candidate::start(kind, etcd, name, ttl);
    thread::sleep(QUEUED.max(led));
    let start = Instant::now();
    match end {
        End::Resign => first.resign(),
        End::Kill => first.kill(),
    }
    second.leads();
    start.elapsed().as_secs_f64() * 1e3
}

/// Kills this many leaders of each kind at the same time, each pair at another moment
/// between two renewals of a lease of 60 s.
pub(crate) fn long_leases(etcd: &Etcd, pairs: usize) -> [Vec<f64>; 2] {
    let of_one = |kind: Kind, pair: usize| {
        let led = RENEWALS.mul_f64(pair as f64 / pairs as f64);
        let name = format!("long-{kind:?}-{pair}");
        change(kind, etcd, &name, 60, End::Kill, led)
    };
    thread::scope(|scope| {
        let all = [Kind::Ours, Kind::Etcdctl].map(|kind| {
            let threads: Vec<_> = (0..pairs)
                .map(|pair| scope.spawn(move || of_one(kind, pair)))
                .collect();
            threads
        });
        all.map(|threads| {
            let times = threads.into_iter().map(|thread| thread.join());
            times.map(|time| time.expect("it is measured")).collect()
        })
    })
}
