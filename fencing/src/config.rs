//! How much of a lease is kept free for stopping.

use std::time::Duration;

/// Rate by which two clocks may drift apart, in parts of a thousand.
const DRIFT_PER_MILLE: u32 = 1;

/// How long before the deadline the kernel's timer fires.
pub(crate) const KILL_MARGIN: Duration = Duration::from_millis(20);

/// How long the last words may take.
pub(crate) const LAST_WORDS: Duration = Duration::from_millis(100);

/// When the kernel's timer fires after a loss that was told, unless it was to fire
/// before: the last words and some time for the thread to begin.
pub(crate) const LOST_GRACE: Duration = Duration::from_millis(150);

/// The exit code of a process that the watchdog has ended: 75, `EX_TEMPFAIL` of
/// `sysexits.h`, which tells a supervisor to start it again.
///
/// A process that the kernel's timer has ended has no exit code: it was killed by
/// signal 9, which shells and Kubernetes show as 137.
pub const EXIT_CODE: i32 = 75;

/// The least abort budget that [`WatchdogConfig::for_ttl`] chooses: a thread on a
/// loaded machine wakes up to 180 ms late.
const MIN_ABORT_BUDGET: Duration = Duration::from_millis(200);

/// What the watchdog does beyond refusing and cancelling.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum Policy {
    /// Ends the process when a lease is over under which something may still run.
    ///
    /// At the abort point, or at once after [`Guard::trip`](crate::Guard::trip), the
    /// watchdog's thread says why on stderr and exits with [`EXIT_CODE`], without exit
    /// handlers, destructors or flushing; see [`Backstop`] for what comes behind it. Only
    /// [`Guard::finish`](crate::Guard::finish) takes a guard out of this.
    #[default]
    Abort,
    /// Only cancels.
    ///
    /// **This gives no bound.** Work that ignores the cancellation goes on after
    /// the deadline, and the process is never ended. For embedded use and tests.
    CancelOnly,
}

/// Whether the kernel ends the process where the watchdog's thread comes too late, under
/// [`Policy::Abort`].
///
/// A process that stands still in a debugger, or is stopped or suspended beyond its
/// lease, is ended too.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum Backstop {
    /// Is used where the system grants it; [`Watchdog::grade`](crate::Watchdog::grade)
    /// says what was granted, and a warning is logged for anything below
    /// [`Grade::Kernel`](crate::Grade::Kernel).
    #[default]
    BestEffort,
    /// Without it [`Watchdog::start`](crate::Watchdog::start) fails.
    Required,
    /// Is not used, say under a debugger.
    Off,
}

/// When the watchdog acts, counted back from the deadline of a guard.
///
/// At `deadline - abort_budget - grace` work is cancelled and nothing may start
/// any more; at `deadline - abort_budget` the guard is lost, and the process ends;
/// at `deadline - 20 ms` the kernel ends it.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct WatchdogConfig {
    /// Length of the leases that are guarded. Only bounds the other two. Default 10 s.
    pub ttl: Duration,
    /// Time between cancelling and the abort point, for work that watches the
    /// cancellation. Default `ttl / 5`, less for short leases.
    pub grace: Duration,
    /// Time between the abort point and the deadline, above 20 ms. Default
    /// `max(200 ms, ttl / 20)`.
    pub abort_budget: Duration,
    /// What happens at the abort point. Default [`Policy::Abort`].
    pub policy: Policy,
    /// Whether the kernel stands behind the watchdog's thread. Default
    /// [`Backstop::BestEffort`].
    pub backstop: Backstop,
}

/// A [`WatchdogConfig`] that leaves no time to work.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum ConfigError {
    /// Stopping takes as long as the lease.
    #[error(
        "grace ({grace:?}) + abort_budget ({abort_budget:?}) must be less than ttl * (1 - 0.001) ({usable:?})"
    )]
    #[non_exhaustive]
    ReserveTooLong {
        /// The configured grace.
        grace: Duration,
        /// The configured abort budget.
        abort_budget: Duration,
        /// The time to live less the clock margin.
        usable: Duration,
    },
    /// The abort point is not before the kill point.
    #[error("abort_budget ({abort_budget:?}) must be more than {KILL_MARGIN:?}")]
    #[non_exhaustive]
    AbortBudgetTooShort {
        /// The configured abort budget.
        abort_budget: Duration,
    },
}

/// The instants of the ladder as a function of the deadline.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Timing {
    pub(crate) grace: Duration,
    pub(crate) abort_budget: Duration,
}

// ===== impl WatchdogConfig =====

impl WatchdogConfig {
    /// Derives every duration from the length of the leases.
    ///
    /// For short leases the grace shrinks first, so that two renewals still fit
    /// before the cancel point. Below a `ttl` of about 600 ms nothing fits any
    /// more beside the least abort budget of 200 ms.
    #[must_use]
    pub fn for_ttl(ttl: Duration) -> Self {
        let abort_budget = MIN_ABORT_BUDGET.max(ttl / 20);
        // What a renewal each third, tried twice for a sixth, leaves of the lease.
        let stopping = usable(ttl).saturating_sub(ttl / 3 + 2 * (ttl / 6));
        Self {
            ttl,
            grace: (ttl / 5).min(stopping.saturating_sub(abort_budget)),
            abort_budget,
            policy: Policy::default(),
            backstop: Backstop::default(),
        }
    }

    /// Sets the time between cancelling and the abort point.
    #[must_use]
    pub fn with_grace(mut self, grace: Duration) -> Self {
        self.grace = grace;
        self
    }

    /// Sets the time between the abort point and the deadline.
    #[must_use]
    pub fn with_abort_budget(mut self, abort_budget: Duration) -> Self {
        self.abort_budget = abort_budget;
        self
    }

    /// Sets what happens at the abort point.
    #[must_use]
    pub fn with_policy(mut self, policy: Policy) -> Self {
        self.policy = policy;
        self
    }

    /// Sets whether the kernel stands behind the watchdog's thread.
    #[must_use]
    pub fn with_backstop(mut self, backstop: Backstop) -> Self {
        self.backstop = backstop;
        self
    }

    /// Returns the time to keep free in every lease: grace and abort budget.
    #[must_use]
    pub fn reserve(&self) -> Duration {
        self.grace.saturating_add(self.abort_budget)
    }

    /// Checks that the durations fit into each other.
    ///
    /// # Errors
    ///
    /// [`ConfigError`] with the inequality that does not hold and its numbers.
    pub fn validate(&self) -> Result<(), ConfigError> {
        if self.abort_budget <= KILL_MARGIN {
            return Err(ConfigError::AbortBudgetTooShort {
                abort_budget: self.abort_budget,
            });
        }
        let usable = usable(self.ttl);
        if self.reserve() >= usable {
            return Err(ConfigError::ReserveTooLong {
                grace: self.grace,
                abort_budget: self.abort_budget,
                usable,
            });
        }
        Ok(())
    }

    pub(crate) fn timing(&self) -> Timing {
        Timing {
            grace: self.grace,
            abort_budget: self.abort_budget,
        }
    }
}

impl Default for WatchdogConfig {
    /// The configuration for leases of 10 s.
    fn default() -> Self {
        Self::for_ttl(Duration::from_secs(10))
    }
}

// ===== impl Timing =====

impl Timing {
    /// From here nothing may start and work is cancelled.
    pub(crate) fn cancel_at(self, deadline: Duration) -> Duration {
        self.abort_at(deadline).saturating_sub(self.grace)
    }

    /// From here nothing may finish and the guard is lost.
    pub(crate) fn abort_at(self, deadline: Duration) -> Duration {
        deadline.saturating_sub(self.abort_budget)
    }
}

/// Returns the deadline of a lease: until when its holder may believe that it has it.
///
/// `sent` is a reading of [`boot_time`](crate::boot_time) taken *before* the request for the
/// lease, or for its renewal, was sent, and `ttl` the time to live that was granted. The
/// deadline is `sent + ttl * (1 - 0.001)`: the store cannot have started the lease earlier,
/// and its clock may run faster than this one by 0.1 %.
///
/// # Examples
///
/// ```
/// use std::time::Duration;
///
/// let sent = fencing::boot_time();
/// let deadline = fencing::deadline(sent, Duration::from_secs(10));
/// assert_eq!(deadline - sent, Duration::from_millis(9_990));
/// ```
#[must_use]
pub fn deadline(sent: Duration, ttl: Duration) -> Duration {
    sent.saturating_add(usable(ttl))
}

fn usable(ttl: Duration) -> Duration {
    ttl / 1000 * (1000 - DRIFT_PER_MILLE)
}

#[cfg(test)]
mod tests {
    use super::*;

    const fn ms(ms: u64) -> Duration {
        Duration::from_millis(ms)
    }

    #[test]
    fn durations_follow_from_the_ttl() {
        let table = [
            // ttl, grace, abort budget
            (60_000, 12_000, 3_000),
            (10_000, 2_000, 500),
            (5_000, 1_000, 250),
            (3_000, 600, 200),
            (1_000, 132, 200),
            (600, 0, 200),
        ];
        for (ttl, grace, abort_budget) in table {
            let config = WatchdogConfig::for_ttl(ms(ttl));
            let got = (config.grace.as_millis(), config.abort_budget.as_millis());
            assert_eq!(got, (grace, abort_budget), "ttl {ttl} ms");
            config.validate().unwrap();
        }
    }

    #[test]
    fn two_renewals_fit_before_the_cancel_point_of_every_derived_config() {
        for ttl in (610..20_000).step_by(7).map(ms) {
            let reserve = WatchdogConfig::for_ttl(ttl).reserve();
            let sum = ttl / 3 + 2 * (ttl / 6) + reserve;
            assert!(sum <= ttl * 999 / 1000, "ttl {ttl:?}, reserve {reserve:?}");
        }
    }

    #[test]
    fn what_does_not_fit_is_refused_with_its_numbers() {
        let long = WatchdogConfig::for_ttl(ms(2_000)).with_grace(ms(1_900));
        assert_eq!(
            long.validate().unwrap_err().to_string(),
            "grace (1.9s) + abort_budget (200ms) must be less than ttl * (1 - 0.001) (1.998s)"
        );
        let short = WatchdogConfig::default().with_abort_budget(ms(20));
        assert_eq!(
            short.validate().unwrap_err().to_string(),
            "abort_budget (20ms) must be more than 20ms"
        );
        let boundary = WatchdogConfig::for_ttl(ms(1_000)).with_grace(ms(799));
        boundary.validate().unwrap_err();
        boundary.with_grace(ms(798)).validate().unwrap();
        WatchdogConfig::for_ttl(Duration::ZERO)
            .validate()
            .unwrap_err();
        let huge = WatchdogConfig::default().with_grace(Duration::MAX);
        huge.validate().unwrap_err();
    }

    #[test]
    fn ladder_counts_back_from_the_deadline_and_stops_at_zero() {
        let timing = WatchdogConfig::default().timing();
        assert_eq!(timing.cancel_at(ms(10_000)), ms(7_500));
        assert_eq!(timing.abort_at(ms(10_000)), ms(9_500));
        assert_eq!(timing.cancel_at(ms(2_500)), Duration::ZERO);
        assert_eq!(timing.cancel_at(ms(1)), Duration::ZERO);
    }
}
