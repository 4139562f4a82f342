//! The command lines of `meta` and `compute`.

use std::path::PathBuf;
use std::time::Duration;

use clap::{Args, Parser, Subcommand};

use super::values::{positive_bytes, positive_duration, whole_seconds};

/// One candidate for the leadership of a barrier loop, or a request to the loop.
///
/// Candidates compete in etcd. The leader drives the registered workers: it injects
/// barriers, collects their snapshots, and commits epochs. What is counted is added
/// while the loop runs.
///
/// Exit code: 0 done, 2 wrong input or a store that cannot be used, 4 not served in
/// time; 75 or status 137 where the watchdog had to end the process.
#[derive(Clone, Debug, Parser)]
#[command(name = "meta", version)]
#[non_exhaustive]
pub struct MetaArgs {
    /// What to do.
    #[command(subcommand)]
    pub command: MetaCommand,
}

/// What `meta` is to do.
#[derive(Clone, Debug, Subcommand)]
#[non_exhaustive]
pub enum MetaCommand {
    /// Competes for the leadership, and leads, until the chain has ended.
    Run(RunArgs),
    /// Adds files and folders to what the loop counts; answered once that is durable.
    Add {
        /// The files and folders, as this machine names them.
        #[arg(required = true, value_name = "PATH")]
        paths: Vec<PathBuf>,
        /// How to ask.
        #[command(flatten)]
        ask: AskArgs,
    },
    /// Lets the loop end once everything is counted; nothing is added from then on.
    Finish(AskArgs),
    /// Prints what the leader told last.
    Status(StoreArgs),
    /// Puts the chain back into an etcd that was rebuilt, from the folder of the results.
    ///
    /// Nothing that was committed is lost; candidates and workers that run go on by
    /// themselves. Only where the etcd of before is gone for good.
    Restore(RestoreArgs),
}

/// What is restored, and where.
#[derive(Args, Clone, Debug)]
#[non_exhaustive]
pub struct RestoreArgs {
    /// Where the loop is.
    #[command(flatten)]
    pub store: StoreArgs,

    /// The folder of the results.
    #[arg(long, value_name = "DIR")]
    pub out: PathBuf,
}

/// Where the loop is.
#[derive(Args, Clone, Debug)]
#[non_exhaustive]
pub struct StoreArgs {
    /// An endpoint of etcd; may be repeated.
    #[arg(long, value_name = "URL", default_value = "http://127.0.0.1:2379")]
    pub etcd: Vec<String>,

    /// The loop's name: its keys in etcd begin with it.
    #[arg(long = "loop", value_name = "NAME", default_value = "barrier")]
    pub name: String,
}

/// Where the loop is, and where its files are.
#[derive(Args, Clone, Debug)]
#[non_exhaustive]
pub struct LoopArgs {
    /// Where the loop is.
    #[command(flatten)]
    pub store: StoreArgs,

    /// The folder of the results, which all processes of the loop share.
    #[arg(long, value_name = "DIR")]
    pub out: PathBuf,

    /// Length of this process's lease in etcd, in whole seconds.
    #[arg(long, default_value = "10s", value_parser = whole_seconds)]
    pub ttl: Duration,

    /// Prints more of the log to standard error.
    #[arg(long)]
    pub verbose: bool,

    /// Leaves out a half of the protection; may be repeated.
    #[cfg(feature = "controls")]
    #[arg(long, value_name = "HALF")]
    pub without: Vec<crate::controls::Half>,
}

impl LoopArgs {
    /// Leaves out what the controls of `chaos` say, in a build that has them.
    pub fn apply_controls(&self) {
        #[cfg(feature = "controls")]
        crate::controls::leave_out(&self.without);
    }
}

/// How a candidate runs.
#[derive(Args, Clone, Debug)]
#[non_exhaustive]
pub struct RunArgs {
    /// Where the loop is.
    #[command(flatten)]
    pub place: LoopArgs,

    /// This candidate's name.
    #[arg(long, value_name = "NAME", default_value = "meta")]
    pub id: String,

    /// Longest time between two barriers.
    #[arg(long, default_value = "200ms", value_parser = positive_duration)]
    pub interval: Duration,

    /// A barrier also after so many bytes read, such as 64k or 1M.
    #[arg(long, value_name = "BYTES", default_value = "1M", value_parser = positive_bytes)]
    pub epoch_bytes: u64,

    /// How long a worker may stay away before its shards move to others.
    #[arg(long, default_value = "2s", value_parser = positive_duration)]
    pub patience: Duration,

    /// How long a round may take.
    #[arg(long, default_value = "10s", value_parser = positive_duration)]
    pub round_deadline: Duration,
}

/// How to ask a running loop.
#[derive(Args, Clone, Debug)]
#[non_exhaustive]
pub struct AskArgs {
    /// Where the loop is.
    #[command(flatten)]
    pub store: StoreArgs,

    /// How long to wait for the answer; what is not served by then is withdrawn.
    #[arg(long, default_value = "30s", value_parser = positive_duration)]
    pub wait: Duration,
}

/// A worker of a barrier loop: counts the shards that the leader gives it.
///
/// It registers itself in etcd, serves one leader at a time, and obeys no lower term
/// than it has seen, also after a restart.
///
/// Exit code: 0 stopped by a signal, 2 wrong input or another process with this id.
#[derive(Clone, Debug, Parser)]
#[command(name = "compute", version)]
#[non_exhaustive]
pub struct ComputeArgs {
    /// Where the loop is.
    #[command(flatten)]
    pub place: LoopArgs,

    /// This worker's id: the same after a restart, and no other worker's.
    #[arg(long, value_name = "ID")]
    pub id: String,

    /// Where it listens; port 0 takes a free one.
    #[arg(long, value_name = "ADDRESS", default_value = "127.0.0.1:0")]
    pub listen: std::net::SocketAddr,

    /// Where the leader reaches it; default: the address and port that it listens on.
    #[arg(long, value_name = "HOST[:PORT]")]
    pub advertise: Option<String>,

    /// Shards that it holds at the most; default: any number.
    #[arg(long, value_name = "N")]
    pub slots: Option<u32>,
}

/// A barrier loop on this machine: etcd, candidates and workers as processes.
///
/// Starts all of them in one folder and on free ports, shows them live, and starts again
/// who ends. At the end the totals are compared with a plain count of the same files, and
/// etcd's history is searched for what must never happen. All end with this program.
///
/// Exit code: 0 equal, 1 not equal or a violation, 2 wrong input, 130 interrupted.
#[derive(Clone, Debug, Parser)]
#[command(name = "cluster", version)]
#[non_exhaustive]
pub struct ClusterArgs {
    /// Files and folders to count; default: text of this workspace.
    #[arg(value_name = "PATH")]
    pub inputs: Vec<PathBuf>,

    /// Number of candidates for the leadership, 1 to 9.
    #[arg(long, default_value_t = 2, value_parser = clap::value_parser!(u16).range(1..=9))]
    pub metas: u16,

    /// Number of workers, 1 to 64.
    #[arg(long, default_value_t = 3, value_parser = clap::value_parser!(u16).range(1..=64))]
    pub computes: u16,

    /// Uses the etcd at this endpoint; default: starts one.
    #[arg(long, value_name = "URL")]
    pub etcd: Option<String>,

    /// The loop's name: its keys in etcd begin with it.
    #[arg(long = "loop", value_name = "NAME", default_value = "barrier")]
    pub name: String,

    /// Folder of the results, and of etcd's data; a second run goes on from there, with
    /// the input that it has.
    /// Default: a temporary folder.
    #[arg(long, value_name = "DIR")]
    pub out: Option<PathBuf>,

    /// Goes on after everything is counted: add more with `meta add`, end it with
    /// `meta finish` or a signal.
    #[arg(long)]
    pub stay: bool,

    /// Length of each lease, in whole seconds.
    #[arg(long, default_value = "3s", value_parser = whole_seconds)]
    pub ttl: Duration,

    /// Longest time between two barriers.
    #[arg(long, default_value = "200ms", value_parser = positive_duration)]
    pub interval: Duration,

    /// A barrier also after so many bytes read, such as 64k or 1M.
    #[arg(long, value_name = "BYTES", default_value = "256k", value_parser = positive_bytes)]
    pub epoch_bytes: u64,

    /// How long a worker may stay away before its shards move to others.
    #[arg(long, default_value = "2s", value_parser = positive_duration)]
    pub patience: Duration,

    /// Number of top words to print.
    #[arg(long, default_value_t = 10)]
    pub top: usize,

    /// Leaves out the plain count and the comparison.
    #[arg(long)]
    pub no_compare: bool,

    /// Shows nothing but the result.
    #[arg(long)]
    pub quiet: bool,

    /// More in the logs of the processes.
    #[arg(long)]
    pub verbose: bool,
}
