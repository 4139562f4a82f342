//! The command line of `chaos`.

use std::path::PathBuf;
use std::time::Duration;

use clap::Parser;

use super::values::{duration, positive_duration, whole_seconds};
use crate::chaos::Kind;

/// A barrier loop of processes under faults that a seed plans.
///
/// Starts etcd, candidates and workers, each process in a network namespace of its own
/// (which takes root), and lets one fault after the other happen while the loop counts.
/// Then etcd's history and the files are searched for what must never happen.
///
/// Exit code: 0 everything held, 1 something was violated, 2 wrong input or a tool that is
/// missing, 3 a planned fault did not happen, 130 interrupted.
#[derive(Clone, Debug, Parser)]
#[command(name = "chaos", version)]
#[non_exhaustive]
pub struct ChaosArgs {
    /// Plans the faults; the same seed plans the same.
    #[arg(long, default_value_t = 1)]
    pub seed: u64,

    /// How long faults happen.
    #[arg(long = "for", value_name = "TIME", default_value = "60s", value_parser = positive_duration)]
    pub length: Duration,

    /// Only this kind of fault; may be repeated. Default: all kinds.
    #[arg(long, value_name = "KIND")]
    pub only: Vec<Kind>,

    /// Folder of everything, which must be empty or new. Default: a temporary one.
    #[arg(long, value_name = "DIR")]
    pub out: Option<PathBuf>,

    /// Length of each lease, in whole seconds.
    #[arg(long, default_value = "3s", value_parser = whole_seconds)]
    pub ttl: Duration,

    /// Added to each bound, for a machine that is busy with other things.
    #[arg(long, default_value = "0s", value_parser = duration)]
    pub slack: Duration,

    /// Leaves out a half of the protection, to see that it is missed; may be repeated.
    #[cfg(feature = "controls")]
    #[arg(long, value_name = "HALF")]
    pub without: Vec<crate::controls::Half>,

    /// More in the logs of the processes.
    #[arg(long)]
    pub verbose: bool,

    /// Set where it runs in namespaces of its own already.
    #[arg(long, hide = true)]
    pub inside: bool,
}
