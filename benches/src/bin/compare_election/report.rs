//! Interleaves the runs and prints what they gave.

use std::time::Duration;

use benches::{
    Cycle, ElectionCall, Etcd, Ours, Ratio, RawCalls, TwoTxns, load, median, print_head,
};
use tokio::{task::block_in_place, time::Instant};

use crate::{
    process::Kind,
    rivals::{End, change, long_leases},
};

/// What the command line asks for.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Options {
    pairs: usize,
    is_quick: bool,
}

/// The runs of one who was measured, and whom the first of a row is divided by.
struct Runs {
    name: &'static str,
    values: Vec<f64>,
}

// ===== impl Options =====

impl Options {
    pub(crate) fn parse(arguments: &[&str]) -> Option<Self> {
        let mut options = Self {
            pairs: 7,
            is_quick: false,
        };
        let mut arguments = arguments.iter();
        while let Some(argument) = arguments.next() {
            match *argument {
                "--pairs" => options.pairs = arguments.next()?.parse().ok()?,
                "--quick" => options.is_quick = true,
                _ => return None,
            }
        }
        (options.pairs > 0).then_some(options)
    }

    fn cycles(self) -> usize {
        if self.is_quick { 20 } else { 300 }
    }
}

// ===== impl Runs =====

impl Runs {
    fn new(name: &'static str) -> Self {
        Self {
            name,
            values: Vec::new(),
        }
    }
}

/// Measures all, and prints a table and the lines for programs.
pub(crate) async fn run(options: &Options) {
    let etcd = Etcd::start().await;
    print_head(options.pairs);
    // Boxed: the calls of etcd's client are large futures.
    let mut lines = print("cycle", "us", &Box::pin(cycles(&etcd, *options)).await);
    // Waiting for children blocks this thread.
    block_in_place(|| {
        lines.extend(print("hand-over", "ms", &hand_overs(&etcd, *options)));
        lines.extend(print("failover/2s", "ms", &failovers(&etcd, *options)));
        if !options.is_quick {
            let [ours, etcdctl] = long_leases(&etcd, options.pairs);
            let runs = [("ours", ours), ("etcdctl", etcdctl)];
            let runs = runs.map(|(name, values)| Runs { name, values });
            lines.extend(print("failover/60s", "ms", &runs));
        }
    });
    println!("\nload after {}\n", load());
    for line in lines {
        println!("{line}");
    }
}

/// Microseconds of a cycle, the median of each run.
async fn cycles(etcd: &Etcd, options: Options) -> [Runs; 4] {
    let mut runs = ["ours", "raw", "call", "two"].map(Runs::new);
    let mut ours = Ours::connect(etcd).await;
    let mut raw = RawCalls::connect(etcd).await;
    let mut call = ElectionCall::connect(etcd).await;
    let mut two = TwoTxns::connect(etcd).await;
    for _ in 0..options.pairs {
        runs[0]
            .values
            .push(times(&mut ours, options.cycles()).await);
        runs[1].values.push(times(&mut raw, options.cycles()).await);
        runs[2]
            .values
            .push(times(&mut call, options.cycles()).await);
        runs[3].values.push(times(&mut two, options.cycles()).await);
    }
    runs
}

async fn times(who: &mut impl Cycle, count: usize) -> f64 {
    let mut times = Vec::with_capacity(count);
    for _ in 0..count {
        let start = Instant::now();
        who.cycle().await;
        times.push(start.elapsed().as_secs_f64() * 1e6);
    }
    median(&times)
}

fn hand_overs(etcd: &Etcd, options: Options) -> [Runs; 2] {
    let mut runs = ["ours", "etcdctl"].map(Runs::new);
    for pair in 0..options.pairs {
        for (kind, runs) in [Kind::Ours, Kind::Etcdctl].into_iter().zip(&mut runs) {
            let name = format!("resign-{kind:?}-{pair}");
            let time = change(kind, etcd, &name, 10, End::Resign, Duration::ZERO);
            runs.values.push(time);
        }
    }
    runs
}

/// Those of a lease that `etcdctl` cannot have.
fn failovers(etcd: &Etcd, options: Options) -> [Runs; 1] {
    let mut runs = [Runs::new("ours")];
    for pair in 0..options.pairs {
        // Two renewals are 667 ms apart: another moment between them each time.
        let led = Duration::from_millis(500 + 667 * pair as u64 / options.pairs as u64);
        let name = format!("kill-{pair}");
        runs[0]
            .values
            .push(change(Kind::Ours, etcd, &name, 2, End::Kill, led));
    }
    runs
}

/// Prints the row of one case and returns the lines for programs.
fn print(case: &str, unit: &str, runs: &[Runs]) -> Vec<String> {
    let mut lines = Vec::new();
    let mut medians = Vec::new();
    for Runs { name, values } in runs {
        let (middle, [low, high]) = (median(values), ends(values));
        medians.push(format!("{name} {middle:.1} ({low:.1} .. {high:.1})"));
        lines.push(format!(
            "VALUE case={case} kind={name} figure={unit:?} median={middle:.1}"
        ));
    }
    let mut ratios = Vec::new();
    if let [ours, others @ ..] = runs {
        for other in others {
            let ratio = Ratio::of(&ours.values, &other.values);
            ratios.push(format!("ours/{} {ratio}", other.name));
            lines.push(format!(
                "RATIO case={case} of=ours/{} figure={unit:?} median={:.3} min={:.3} max={:.3} \
                 pairs={}",
                other.name, ratio.median, ratio.min, ratio.max, ratio.pairs
            ));
        }
    }
    let (medians, ratios) = (medians.join(", "), ratios.join("; "));
    println!("| {case} | {unit} | {medians} | {ratios} |");
    lines
}

fn ends(values: &[f64]) -> [f64; 2] {
    let low = values.iter().copied().fold(f64::INFINITY, f64::min);
    [low, values.iter().copied().fold(0.0, f64::max)]
}
