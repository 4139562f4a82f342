//! One run of one case, in a process of its own.

use std::time::Duration;

use benches::{
    Bare, Fleet, Floor, Plan, Pooled, Raw, Rounds, Sample, Server, Unary, median, pin, ping_pong,
    resident_bytes, rounds, streaming,
};

use crate::case::{Case, Kind};

/// Size of a barrier, bytes.
const BARRIER_BYTES: usize = 64;

/// How much is measured.
#[derive(Clone, Copy)]
struct Effort {
    round_trips: usize,
    streamed_bytes: usize,
    batches: usize,
    round_time: Duration,
}

/// Measures and prints the figures on one line.
pub(crate) fn run(case: Case, kind: Kind, is_quick: bool) {
    if case.is_pinned() {
        // For as long as the process lives, and its server.
        let _ = pin();
    }
    let effort = Effort::new(is_quick);
    let runtime = case.flavor().runtime();
    let task = async move {
        let server = Server::start(Plan::new(kind.service(), case.flavor(), case.workers()));
        let base = resident_bytes();
        match kind {
            Kind::Pool => measure(Pooled::connect(&server).await, case, effort, base).await,
            Kind::Raw => measure(Raw::connect(&server).await, case, effort, base).await,
            Kind::Bare => measure(Bare::connect(&server).await, case, effort, base).await,
            Kind::Floor => measure(Floor::start(case.workers()), case, effort, base).await,
            Kind::Unary => repeat_rounds(&mut Unary::connect(&server).await, effort).await,
        }
    };
    // On a thread of the runtime, as a program's tasks are.
    let sample = runtime.block_on(async { tokio::spawn(task).await });
    let sample = sample.expect("a measurement does not fail");
    println!("{} {} {}", sample.per_second, sample.p50_us, sample.p99_us);
}

// ===== impl Effort =====

impl Effort {
    fn new(is_quick: bool) -> Self {
        if is_quick {
            Self {
                round_trips: 100,
                streamed_bytes: 64_000,
                batches: 1,
                round_time: Duration::ZERO,
            }
        } else {
            Self {
                round_trips: 30_000,
                streamed_bytes: 50_000_000,
                batches: 5,
                round_time: Duration::from_millis(1500),
            }
        }
    }
}

async fn measure<F: Fleet>(mut fleet: F, case: Case, effort: Effort, base: u64) -> Sample {
    match case {
        Case::PingPong { size } => {
            ping_pong(&mut fleet, size, effort.round_trips / 10).await;
            ping_pong(&mut fleet, size, effort.round_trips).await
        }
        Case::Stream { size, sessions } => {
            // A small message costs its handling, a large one its bytes.
            let message_bytes = size.max(192) * sessions;
            let messages = (effort.streamed_bytes / message_bytes) as u64;
            let mut rates = Vec::new();
            for batch in 0..=effort.batches {
                let sample = streaming(&mut fleet, sessions, size, messages).await;
                if batch > 0 {
                    rates.push(sample.per_second);
                }
            }
            Sample::of_rate(median(&rates))
        }
        Case::Round { .. } => repeat_rounds(&mut fleet, effort).await,
        Case::Memory { workers } => {
            fleet.round(1, BARRIER_BYTES).await;
            // What the round needed for a moment is given back.
            tokio::time::sleep(Duration::from_millis(500)).await;
            let used = resident_bytes().saturating_sub(base);
            Sample::of_rate(used as f64 / 1024.0 / workers as f64)
        }
    }
}

async fn repeat_rounds<F: Rounds>(fleet: &mut F, effort: Effort) -> Sample {
    let mut epoch = 0;
    let warm_up = effort.round_time / 5;
    rounds(fleet, BARRIER_BYTES, &mut epoch, 2, warm_up).await;
    rounds(fleet, BARRIER_BYTES, &mut epoch, 5, effort.round_time).await
}
