//! The command line of `lease-calculator`.

use std::time::Duration;

use clap::Parser;

use super::values::{duration, positive_duration};

/// Shows what a lease of some length tolerates, and how long a failover takes with it.
///
/// Reads nothing and changes nothing. What is not given is derived from the length, as
/// `ElectionConfig::for_ttl` and `WatchdogConfig::for_ttl` do.
///
/// Exit code: 0 the durations fit, 2 they do not, or wrong input.
#[derive(Clone, Debug, Parser)]
#[command(name = "lease-calculator", version)]
#[non_exhaustive]
pub struct LeaseArgs {
    /// Length of the lease, such as 10s.
    #[arg(long, default_value = "10s", value_parser = positive_duration)]
    pub ttl: Duration,

    /// From the sending of one renewal to the next; default: a third of the lease.
    #[arg(long, value_parser = positive_duration)]
    pub renew_every: Option<Duration>,

    /// Limit of one renewal; default: a sixth of the lease.
    #[arg(long, value_parser = positive_duration)]
    pub renew_timeout: Option<Duration>,

    /// From the cancelling of work to the abort point; default: a fifth of the lease.
    #[arg(long, value_parser = duration)]
    pub grace: Option<Duration>,

    /// From the abort point to the deadline; default: 200ms, or a 20th of the lease.
    #[arg(long, value_parser = positive_duration)]
    pub abort_budget: Option<Duration>,

    /// How long a new leader waits before it begins.
    #[arg(long, default_value = "0s", value_parser = duration)]
    pub takeover_delay: Duration,

    /// How late the store ends a lease and tells of it; etcd: 2s.
    #[arg(long, default_value = "2s", value_parser = duration)]
    pub store_delay: Duration,
}
