//! The command line of `barrier-loop`.

use std::path::PathBuf;
use std::time::Duration;

use clap::Parser;

use super::values::{duration, positive_bytes, positive_duration};

/// Counts the words of real files exactly once, whatever is killed meanwhile.
///
/// One process holds two candidates of an election, which drive the workers over
/// one gRPC stream each: barriers are injected and collected, epochs are
/// committed. At the end the totals are compared with a plain single-threaded
/// count of the same files.
///
/// Exit code: 0 equal, 1 not equal, 2 wrong input, 3 a requested kill did not
/// happen, 130 interrupted.
#[derive(Clone, Debug, Parser)]
#[command(name = "barrier-loop", version)]
#[non_exhaustive]
pub struct Args {
    /// Files and folders to count; default: this workspace's own text.
    #[arg(value_name = "PATH")]
    pub inputs: Vec<PathBuf>,

    /// Number of workers, 1 to 256.
    #[arg(long, default_value_t = 4, value_parser = clap::value_parser!(u16).range(1..=256))]
    pub workers: u16,

    /// Longest time between two barriers, such as 200ms or 1s.
    #[arg(long, default_value = "200ms", value_parser = positive_duration)]
    pub interval: Duration,

    /// A barrier also after so many bytes read, such as 64k or 1M; default: a 32nd
    /// of the input, 4k to 4M.
    #[arg(long, value_name = "BYTES", value_parser = positive_bytes)]
    pub epoch_bytes: Option<u64>,

    /// Number of top words to print.
    #[arg(long, default_value_t = 10)]
    pub top: usize,

    /// Folder of the results; a second run goes on from its last committed epoch.
    /// Default: a temporary folder.
    #[arg(long, value_name = "DIR")]
    pub out: Option<PathBuf>,

    /// Kills the leader at a time or a share of the input, such as 2s or 30%.
    #[arg(long, value_name = "WHEN", value_parser = when)]
    pub kill_leader_at: Option<When>,

    /// Kills a worker at a time or a share of the input; it starts again soon.
    #[arg(long, value_name = "WHEN", value_parser = when)]
    pub kill_worker_at: Option<When>,

    /// Leaves out the plain count and the comparison: nothing that was committed is read again.
    #[arg(long)]
    pub no_compare: bool,

    /// Shows no progress, and of the result only what differs.
    #[arg(long)]
    pub quiet: bool,

    /// Prints the log of the crates to standard error.
    #[arg(long)]
    pub verbose: bool,
}

/// When something happens in a run.
#[derive(Clone, Copy, Debug, PartialEq)]
#[non_exhaustive]
pub enum When {
    /// So long after the start.
    After(Duration),
    /// Once this share of the input is committed, in percent.
    Share(f64),
}

impl When {
    /// Says whether the time has come.
    #[must_use]
    pub fn is_due(self, elapsed: Duration, committed_bytes: u64, total_bytes: u64) -> bool {
        match self {
            Self::After(wait) => elapsed >= wait,
            Self::Share(percent) => {
                committed_bytes as f64 * 100.0 >= percent * total_bytes.max(1) as f64
            }
        }
    }
}

fn when(text: &str) -> Result<When, String> {
    let Some(percent) = text.strip_suffix('%') else {
        let time = duration(text).map(When::After);
        return time.map_err(|_| "write a time such as 2s, or a share such as 30%".to_owned());
    };
    match percent.parse::<f64>() {
        Ok(share) if (0.0..100.0).contains(&share) => Ok(When::Share(share)),
        _ => Err("a share is from 0% to below 100%".to_owned()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_and_shares_are_read() {
        assert_eq!(when("30%"), Ok(When::Share(30.0)));
        assert_eq!(when("2m"), Ok(When::After(Duration::from_secs(120))));
    }

    #[test]
    fn wrong_values_are_refused() {
        for text in ["100%", "-1%", "%", "NaN%", "x%"] {
            assert!(when(text).is_err(), "{text:?}");
        }
        for args in [
            ["barrier-loop", "--workers", "0"],
            ["barrier-loop", "--workers", "257"],
            ["barrier-loop", "--interval", "0ms"],
        ] {
            assert!(Args::try_parse_from(args).is_err(), "{args:?}");
        }
    }

    #[test]
    fn a_time_or_a_share_becomes_due() {
        let s = Duration::from_secs;
        assert!(!When::After(s(2)).is_due(s(1), 100, 100));
        assert!(When::After(s(2)).is_due(s(2), 0, 100));
        assert!(!When::Share(30.0).is_due(s(9), 29, 100));
        assert!(When::Share(30.0).is_due(s(0), 30, 100));
    }
}
