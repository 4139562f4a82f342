//! The measurements, each written once for every fleet.

use std::time::Duration;

use tokio::task::JoinSet;
use tokio::time::Instant;

use crate::fleet::{Courier, Fleet, Rounds, count, echo, mark};
use crate::stats::percentile;
use crate::wire::Reply;

/// What one run of a measurement gave.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Sample {
    /// Round trips, messages or rounds each second.
    pub per_second: f64,
    /// Median of the latencies, microseconds; of a stream, the mean time of a message.
    pub p50_us: f64,
    /// 99th percentile of the latencies, microseconds; of a stream, the same mean.
    pub p99_us: f64,
}

// ===== impl Sample =====

impl Sample {
    /// Makes a sample of something that has no latencies.
    #[must_use]
    pub fn of_rate(per_second: f64) -> Self {
        let mean_us = 1e6 / per_second;
        Self {
            per_second,
            p50_us: mean_us,
            p99_us: mean_us,
        }
    }

    fn of_latencies(latencies: &[f64], total: Duration) -> Self {
        Self {
            per_second: latencies.len() as f64 / total.as_secs_f64(),
            p50_us: percentile(latencies, 0.5),
            p99_us: percentile(latencies, 0.99),
        }
    }
}

/// Sends a message to the first worker and waits until it is back, so often.
pub async fn ping_pong<F: Fleet>(fleet: &mut F, size: usize, times: usize) -> Sample {
    let courier = fleet.courier(0);
    let mut latencies = Vec::with_capacity(times);
    let start = Instant::now();
    for _ in 0..times {
        let sent = Instant::now();
        courier.send(echo(size)).await;
        fleet.recv().await;
        latencies.push(micros(sent.elapsed()));
    }
    Sample::of_latencies(&latencies, start.elapsed())
}

/// Sends this many messages to each of the first workers as fast as they are taken, a
/// task for each, and waits until all have counted them.
///
/// # Panics
///
/// Where a worker has counted another number.
pub async fn streaming<F: Fleet>(
    fleet: &mut F,
    sessions: usize,
    size: usize,
    messages: u64,
) -> Sample {
    let mut tasks = JoinSet::new();
    let start = Instant::now();
    for worker in 0..sessions {
        let courier = fleet.courier(worker);
        tasks.spawn(async move {
            for _ in 0..messages {
                courier.send(count(size)).await;
            }
            courier.send(mark()).await;
        });
    }
    for _ in 0..sessions {
        assert_eq!(counted(&fleet.recv().await), messages);
    }
    let taken = start.elapsed();
    let sent = messages as f64 * sessions as f64;
    Sample::of_rate(sent / taken.as_secs_f64())
}

/// Runs barrier rounds one after the other for this long, at least `times`; `last` is the
/// last epoch that was used.
pub async fn rounds<F: Rounds>(
    fleet: &mut F,
    size: usize,
    last: &mut u64,
    times: usize,
    time: Duration,
) -> Sample {
    let mut latencies = Vec::new();
    let start = Instant::now();
    while latencies.len() < times || start.elapsed() < time {
        let sent = Instant::now();
        *last += 1;
        fleet.round(*last, size).await;
        latencies.push(micros(sent.elapsed()));
    }
    Sample::of_latencies(&latencies, start.elapsed())
}

fn counted(reply: &Reply) -> u64 {
    let bytes = reply.body.as_slice().try_into();
    u64::from_be_bytes(bytes.expect("a count has 8 bytes"))
}

fn micros(time: Duration) -> f64 {
    time.as_secs_f64() * 1e6
}
