//! What the durations of a lease amount to: when work stops, what is tolerated, how long a
//! failover takes.
//!
//! Nothing is decided here: the settings are those of `leader_election::ElectionConfig` and
//! `fencing::WatchdogConfig`, which derive and validate them. The instants are defined in
//! the documentation of both crates; a test compares them with what a real guard does.

mod sheet;

use std::fmt;
use std::time::Duration;

use fencing::WatchdogConfig;
use leader_election::ElectionConfig;

pub use sheet::sheet;

use crate::cli::LeaseArgs;

/// The kernel's timer fires so long before the deadline.
const KILL_MARGIN: Duration = Duration::from_millis(20);

/// The clocks of two machines may differ in rate by one part in so many.
const DRIFT: u32 = 1000;

/// The longest lease of an election, a day.
const LONGEST_MS: u64 = 24 * 3600 * 1000;

/// The durations of a lease, and what follows from them.
///
/// All instants count from the sending of the last renewal that was confirmed.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Lease {
    /// Length of the lease.
    pub ttl: Duration,
    /// From the sending of one renewal to the next.
    pub renew_every: Duration,
    /// Limit of one renewal.
    pub renew_timeout: Duration,
    /// From the cancel point to the abort point.
    pub grace: Duration,
    /// From the abort point to the deadline.
    pub abort_budget: Duration,
    /// How long a new leader waits before it begins.
    pub takeover_delay: Duration,
    /// How late the store ends a lease and tells of it.
    pub store_delay: Duration,
}

/// Durations that do not fit into each other.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Misfit {
    broken: String,
    advice: String,
}

// ===== impl Lease =====

impl Lease {
    /// Derives what was not given, and checks that all of it fits.
    ///
    /// # Errors
    ///
    /// The inequality that does not hold, with its numbers, and what to change.
    pub fn new(args: &LeaseArgs) -> Result<Self, Misfit> {
        Self::derive(args).map_err(|broken| Misfit {
            broken,
            advice: advice(args),
        })
    }

    fn derive(args: &LeaseArgs) -> Result<Self, String> {
        let mut watchdog = WatchdogConfig::for_ttl(args.ttl);
        watchdog.grace = args.grace.unwrap_or(watchdog.grace);
        watchdog.abort_budget = args.abort_budget.unwrap_or(watchdog.abort_budget);
        let mut election = ElectionConfig::for_ttl(args.ttl)
            .with_reserve(watchdog.reserve())
            .with_takeover_delay(args.takeover_delay);
        election.renew_every = args.renew_every.unwrap_or(election.renew_every);
        election.renew_timeout = args.renew_timeout.unwrap_or(election.renew_timeout);
        let lease = Self {
            ttl: args.ttl,
            renew_every: election.renew_every,
            renew_timeout: election.renew_timeout,
            grace: watchdog.grace,
            abort_budget: watchdog.abort_budget,
            takeover_delay: args.takeover_delay,
            store_delay: args.store_delay,
        };
        let broken = watchdog.validate().map_err(|error| error.to_string());
        let broken = broken.and(election.validate().map_err(|error| error.to_string()));
        broken.map(|()| lease)
    }

    /// What is given up to clocks that run at different rates.
    #[must_use]
    pub fn margin(&self) -> Duration {
        self.ttl / DRIFT
    }

    /// By when work must have stopped.
    #[must_use]
    pub fn deadline(&self) -> Duration {
        self.ttl - self.margin()
    }

    /// From here the kernel lets nothing run.
    #[must_use]
    pub fn kill_at(&self) -> Duration {
        self.deadline().saturating_sub(KILL_MARGIN)
    }

    /// From here nothing may finish, and the watchdog ends the process.
    #[must_use]
    pub fn abort_at(&self) -> Duration {
        self.deadline().saturating_sub(self.abort_budget)
    }

    /// From here nothing may start, and work is cancelled.
    #[must_use]
    pub fn cancel_at(&self) -> Duration {
        self.abort_at().saturating_sub(self.grace)
    }

    /// How many renewals in a row may go unanswered.
    ///
    /// An attempt that is not answered within its limit is repeated at once; one more has to
    /// fit, with its whole limit, before the cancel point.
    #[must_use]
    pub fn lost_renewals(&self) -> u32 {
        let room = self.cancel_at().saturating_sub(self.renew_every);
        let attempts = room.as_nanos() / self.renew_timeout.as_nanos().max(1);
        u32::try_from(attempts.saturating_sub(1)).unwrap_or(u32::MAX)
    }

    /// How long the process, or the way to the store, may stand still at any moment.
    ///
    /// At worst it begins as a renewal is due; the next one has its limit to be answered.
    #[must_use]
    pub fn pause(&self) -> Duration {
        let room = self.cancel_at().saturating_sub(self.renew_every);
        room.saturating_sub(self.renew_timeout)
    }

    /// From the death of a leader to the next one, at worst: it dies right after a renewal.
    #[must_use]
    pub fn after_crash(&self) -> Duration {
        self.ttl + self.store_delay + self.takeover_delay
    }

    /// How long nobody may begin work where the leader is cut off from the store.
    #[must_use]
    pub fn idle(&self) -> Duration {
        self.after_crash() - self.cancel_at()
    }

    /// From the last answer to the next leader, where requests arrive and answers do not.
    ///
    /// Renewals start the lease anew at the store until the process ends.
    #[must_use]
    pub fn after_lost_answers(&self) -> Duration {
        self.abort_at() + self.after_crash()
    }

    /// From the order to stop to the next leader, at worst.
    ///
    /// Work that has begun may go on until the abort point; then the release has its limit.
    #[must_use]
    pub fn after_resign(&self) -> Duration {
        self.abort_at() + 2 * self.renew_timeout + self.takeover_delay
    }
}

// ===== impl Misfit =====

impl fmt::Display for Misfit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.broken, self.advice)
    }
}

impl std::error::Error for Misfit {}

/// Says which one setting, changed alone, makes all of them fit.
fn advice(args: &LeaseArgs) -> String {
    if args
        .abort_budget
        .is_some_and(|budget| budget <= KILL_MARGIN)
    {
        return "set --abort-budget above 20ms; 200ms is what a loaded machine needs".to_owned();
    }
    let fits = |change: fn(&mut LeaseArgs, Duration), ms: u64| {
        let mut changed = args.clone();
        change(&mut changed, Duration::from_millis(ms));
        Lease::derive(&changed).is_ok()
    };
    let ttl = first(LONGEST_MS, |ms| fits(|args, ttl| args.ttl = ttl, ms));
    let whole = u64::try_from(args.ttl.as_millis()).unwrap_or(LONGEST_MS);
    let less = first(whole, |less| {
        fits(|args, grace| args.grace = Some(grace), whole - less)
    });
    let found = [
        ttl.map(|ms| format!("--ttl to {ms}ms or more")),
        less.map(|less| format!("--grace to {}ms or less", whole - less)),
    ];
    let found: Vec<_> = found.into_iter().flatten().collect();
    if found.is_empty() {
        return "shorten --renew-every, --renew-timeout or --abort-budget".to_owned();
    }
    format!("set {}", found.join(", or "))
}

/// Returns the lowest value that fits, up to `high`, where all above it fit as well.
fn first(mut high: u64, fits: impl Fn(u64) -> bool) -> Option<u64> {
    if !fits(high) {
        return None;
    }
    let mut low = 0;
    while low < high {
        let middle = low + (high - low) / 2;
        if fits(middle) {
            high = middle;
        } else {
            low = middle + 1;
        }
    }
    Some(low)
}

#[cfg(test)]
mod tests;
