//! One run of one case, in a process of its own.

use std::time::Duration;

use benches::{
    Bare, Fleet, Floor, Plan, Pooled, Raw, Rounds, Sample, Server, Unary, cpu_time, median, pin,
    ping_pong, resident_bytes, rounds, streaming,
};

use crate::case::{Case, Kind};

/// Size of a barrier, bytes.
const BARRIER_BYTES: usize = 64;

/// Per second, median and 99th percentile of the latency, CPU time here and in the
/// server: microseconds.
type Figures = [f64; 5];

/// What a run starts from.
struct Base<'a> {
    memory_bytes: u64,
    server: &'a Server,
    effort: Effort,
}

/// How much is measured.
#[derive(Clone, Copy)]
pub(crate) struct Effort {
    round_trips: usize,
    streamed_bytes: usize,
    batches: usize,
    round_time: Duration,
    least_rounds: usize,
}

/// Measures and prints the figures on one line.
pub(crate) fn run(case: Case, kind: Kind, effort: Effort) {
    if case.is_pinned() {
        // For as long as the process lives, and its server.
        let _ = pin();
    }
    let runtime = case.flavor().runtime();
    let task = async move {
        let server = Server::start(Plan::new(kind.service(), case.flavor(), case.workers()));
        let base = Base {
            memory_bytes: resident_bytes(),
            server: &server,
            effort,
        };
        match kind {
            Kind::Pool => base.measure(Pooled::connect(&server).await, case).await,
            Kind::Raw => base.measure(Raw::connect(&server).await, case).await,
            Kind::Bare => base.measure(Bare::connect(&server).await, case).await,
            Kind::Floor => base.measure(Floor::start(case.workers()), case).await,
            Kind::Unary => base.rounds(&mut Unary::connect(&server).await).await,
        }
    };
    // On a thread of the runtime, as a program's tasks are.
    let figures = runtime.block_on(async { tokio::spawn(task).await });
    let figures = figures.expect("a measurement does not fail");
    println!("{}", figures.map(|figure| figure.to_string()).join(" "));
}

// ===== impl Base =====

impl Base<'_> {
    async fn measure<F: Fleet>(&self, mut fleet: F, case: Case) -> Figures {
        match case {
            Case::PingPong { size } => {
                let times = self.effort.round_trips;
                ping_pong(&mut fleet, size, times / 10).await;
                let before = self.cpu_time();
                let sample = ping_pong(&mut fleet, size, times).await;
                self.figures(sample, before, times as f64)
            }
            Case::Stream { size, sessions } => {
                // A small message costs its handling, a large one its bytes.
                let message_bytes = size.max(192) * sessions;
                let messages = (self.effort.streamed_bytes / message_bytes) as u64;
                streaming(&mut fleet, sessions, size, messages).await;
                let before = self.cpu_time();
                let mut rates = Vec::new();
                for _ in 0..self.effort.batches {
                    let sample = streaming(&mut fleet, sessions, size, messages).await;
                    rates.push(sample.per_second);
                }
                let all = messages as f64 * (sessions * rates.len()) as f64;
                self.figures(Sample::of_rate(median(&rates)), before, all)
            }
            Case::Round { .. } => self.rounds(&mut fleet).await,
            Case::Memory { workers } => {
                fleet.round(1, BARRIER_BYTES).await;
                // What the round needed for a moment is given back.
                tokio::time::sleep(Duration::from_millis(500)).await;
                let used = resident_bytes().saturating_sub(self.memory_bytes);
                let kib = used as f64 / 1024.0 / workers as f64;
                [kib, 0.0, 0.0, 0.0, 0.0]
            }
        }
    }

    async fn rounds<F: Rounds>(&self, fleet: &mut F) -> Figures {
        let (mut epoch, time) = (0, self.effort.round_time);
        rounds(fleet, BARRIER_BYTES, &mut epoch, 2, time / 5).await;
        let (before, first) = (self.cpu_time(), epoch);
        let least = self.effort.least_rounds;
        let sample = rounds(fleet, BARRIER_BYTES, &mut epoch, least, time).await;
        self.figures(sample, before, (epoch - first) as f64)
    }

    /// CPU time of both processes: unlike the wall's, it does not count what other
    /// programs of the machine took.
    fn cpu_time(&self) -> [Duration; 2] {
        [cpu_time(), self.server.cpu_time()]
    }

    fn figures(&self, sample: Sample, before: [Duration; 2], operations: f64) -> Figures {
        let now = self.cpu_time();
        let [here, there] = [0, 1].map(|process| {
            let used = now[process].saturating_sub(before[process]);
            used.as_secs_f64() * 1e6 / operations
        });
        [sample.per_second, sample.p50_us, sample.p99_us, here, there]
    }
}

// ===== impl Effort =====

impl Effort {
    /// Reads the options: `--quick`, or `--rounds N` for so many rounds exactly and little
    /// else, so that two runs differ in their rounds alone.
    pub(crate) fn parse(options: &[&str]) -> Option<Self> {
        match options {
            [] => Some(Self {
                round_trips: 30_000,
                streamed_bytes: 50_000_000,
                batches: 5,
                round_time: Duration::from_millis(1500),
                least_rounds: 5,
            }),
            ["--quick"] => Some(Self::quick(5)),
            ["--rounds", count] => Some(Self::quick(count.parse().ok()?)),
            _ => None,
        }
    }

    fn quick(least_rounds: usize) -> Self {
        Self {
            round_trips: 100,
            streamed_bytes: 64_000,
            batches: 1,
            round_time: Duration::ZERO,
            least_rounds,
        }
    }
}
