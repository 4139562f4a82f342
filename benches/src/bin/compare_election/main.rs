//! Compares the election on etcd with the same calls by hand, with etcd's own election
//! call, and with `etcdctl elect`, interleaved: A B A B.
//!
//! A machine's speed drifts, so only ratios of neighbors count: the median of at least
//! seven, with the lowest and the highest. Prints Markdown, and a line that begins with
//! `RATIO` or `VALUE` for each figure. Starts an etcd of its own; `ETCD` and `ETCDCTL` name
//! other binaries.
//!
//! ```text
//! compare_election [--pairs N] [--quick]    quick: short runs, no leases of 60 s
//! ```

mod process;
mod report;
mod rivals;

use std::{process::ExitCode, time::Duration};

use benches::{Flavor, candidate};

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
    let runtime = Flavor::Multi.runtime();
    match arguments.as_slice() {
        ["candidate", endpoint, name, ttl] => {
            let Ok(ttl) = ttl.parse() else {
                return usage();
            };
            runtime.block_on(candidate(endpoint, name, Duration::from_secs(ttl)));
            ExitCode::SUCCESS
        }
        _ => match report::Options::parse(&arguments) {
            Some(options) => {
                runtime.block_on(report::run(&options));
                ExitCode::SUCCESS
            }
            None => usage(),
        },
    }
}

fn usage() -> ExitCode {
    eprintln!("usage: compare_election [--pairs N] [--quick]");
    ExitCode::FAILURE
}
