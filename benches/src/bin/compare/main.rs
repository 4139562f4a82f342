//! Compares the pool with its baselines, interleaved: A B A B, each run in a fresh process.
//!
//! A machine's speed drifts, so only ratios of neighbors count: the median of at least
//! seven, with the lowest and the highest. Prints Markdown, and a line that begins with
//! `RATIO`, `VALUE` or `STORM` for each figure.
//!
//! ```text
//! compare [--pairs N] [--quick] [CASE ..]   all cases, or those whose name begins so
//! compare sample CASE KIND [--quick | --rounds N]   one run, for a profiler
//! compare storm [WORKERS]                   cold connect, and the return of a lost server
//! ```

mod case;
mod report;
mod sample;
mod storm;

use std::process::ExitCode;

use benches::{raise_file_limit, serve_if_asked};

use case::{Case, Kind};
use sample::Effort;

fn main() -> ExitCode {
    if serve_if_asked() {
        return ExitCode::SUCCESS;
    }
    raise_file_limit();
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
    match arguments.as_slice() {
        ["sample", case, kind, rest @ ..] => {
            let asked = (
                Case::from_text(case),
                Kind::from_text(kind),
                Effort::parse(rest),
            );
            let (Some(case), Some(kind), Some(effort)) = asked else {
                return usage();
            };
            sample::run(case, kind, effort);
            ExitCode::SUCCESS
        }
        ["storm", rest @ ..] => storm::run(rest.first().and_then(|text| text.parse().ok())),
        _ => match report::Options::parse(&arguments) {
            Some(options) => report::run(&options),
            None => usage(),
        },
    }
}

fn usage() -> ExitCode {
    eprintln!(
        "usage: compare [--pairs N] [--quick] [CASE ..] | compare storm [WORKERS] \
         | compare sample CASE KIND [--quick | --rounds N]"
    );
    ExitCode::FAILURE
}
