//! Interleaves the runs of each case and prints what they gave.

use std::collections::BTreeMap;
use std::process::{Command, ExitCode, Stdio};

use benches::{Ratio, load, median, print_head};

use crate::case::{CASES, Case, Figure, Kind};

/// What the command line asks for.
#[derive(Clone, Debug)]
pub(crate) struct Options {
    pairs: usize,
    is_quick: bool,
    cases: Vec<Case>,
}

/// The figures of each run of one kind, in order.
type Runs = Vec<Vec<f64>>;

// ===== impl Options =====

impl Options {
    pub(crate) fn parse(arguments: &[&str]) -> Option<Self> {
        let mut options = Self {
            pairs: 7,
            is_quick: false,
            cases: Vec::new(),
        };
        let mut arguments = arguments.iter();
        while let Some(argument) = arguments.next() {
            match *argument {
                "--pairs" => options.pairs = arguments.next()?.parse().ok()?,
                "--quick" => options.is_quick = true,
                name => {
                    let before = options.cases.len();
                    let named = CASES.iter().filter(|case| case.name().starts_with(name));
                    options.cases.extend(named);
                    if options.cases.len() == before {
                        return None;
                    }
                }
            }
        }
        if options.cases.is_empty() {
            options.cases.extend(CASES);
        }
        (options.pairs > 0).then_some(options)
    }
}

/// Runs the cases and prints a table row, and lines for programs, for each.
pub(crate) fn run(options: &Options) -> ExitCode {
    print_head(options.pairs);
    let mut lines = Vec::new();
    for case in &options.cases {
        let runs = interleave(*case, options);
        for figure in case.figures() {
            lines.extend(print(*case, *figure, &runs));
        }
    }
    println!("\nload after {}\n", load());
    for line in lines {
        println!("{line}");
    }
    ExitCode::SUCCESS
}

/// A B A B: each kind once, then each again.
fn interleave(case: Case, options: &Options) -> BTreeMap<&'static str, Runs> {
    let mut runs: BTreeMap<_, Runs> = BTreeMap::new();
    for _ in 0..options.pairs {
        for kind in case.kinds() {
            let sample = sample(case, *kind, options.is_quick);
            runs.entry(kind.name()).or_default().push(sample);
        }
    }
    runs
}

/// Runs this program again for one run.
fn sample(case: Case, kind: Kind, is_quick: bool) -> Vec<f64> {
    let program = std::env::current_exe().expect("a program knows its file");
    let mut command = Command::new(program);
    command.args(["sample", &case.name(), kind.name()]);
    if is_quick {
        command.arg("--quick");
    }
    let output = command.stderr(Stdio::inherit()).output();
    let output = output.expect("a program can run itself");
    assert!(
        output.status.success(),
        "a run of {} over {} failed",
        case.name(),
        kind.name()
    );
    let text = String::from_utf8_lossy(&output.stdout);
    let figures = text.split_whitespace().map(str::parse);
    figures
        .collect::<Result<_, _>>()
        .expect("a run prints figures")
}

/// Prints the row of one figure and returns the lines for programs.
fn print(case: Case, figure: Figure, runs: &BTreeMap<&'static str, Runs>) -> Vec<String> {
    let name = case.name();
    let of = |kind: Kind| -> Vec<f64> {
        let runs = &runs[kind.name()];
        runs.iter().map(|run| run[figure.place]).collect()
    };
    let mut lines = Vec::new();
    let mut medians = Vec::new();
    for kind in case.kinds() {
        let value = median(&of(*kind));
        medians.push(format!("{} {}", kind.name(), readable(value)));
        lines.push(format!(
            "VALUE case={name} kind={} figure={:?} median={value}",
            kind.name(),
            figure.name
        ));
    }
    let mut ratios = Vec::new();
    for (one, other) in case.comparisons() {
        let ratio = Ratio::of(&of(*one), &of(*other));
        ratios.push(format!("{}/{} {ratio}", one.name(), other.name()));
        lines.push(format!(
            "RATIO case={name} of={}/{} figure={:?} median={:.3} min={:.3} max={:.3} pairs={}",
            one.name(),
            other.name(),
            figure.name,
            ratio.median,
            ratio.min,
            ratio.max,
            ratio.pairs
        ));
    }
    let (medians, ratios) = (medians.join(", "), ratios.join("; "));
    println!("| {name} | {} | {medians} | {ratios} |", figure.name);
    lines
}

fn readable(value: f64) -> String {
    if value >= 1e6 {
        format!("{:.2}M", value / 1e6)
    } else if value >= 1e4 {
        format!("{:.1}k", value / 1e3)
    } else if value >= 100.0 {
        format!("{value:.0}")
    } else if value >= 10.0 {
        format!("{value:.1}")
    } else {
        format!("{value:.2}")
    }
}
