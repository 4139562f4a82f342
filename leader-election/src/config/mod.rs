//! The durations of an election, and the inequality that keeps them safe.

use std::{fmt, sync::Arc, time::Duration};

use crate::{Error, ErrorKind};

/// A progress check: false withholds renewals from a leader that is stuck.
pub type RenewWhile = Arc<dyn Fn() -> bool + Send + Sync>;

/// The part of a TTL given up to clock drift is one in this many (rho = 0.001):
/// clocks that are disciplined by NTP differ in rate by at most 500 ppm each.
const DRIFT_DIVISOR: u32 = 1000;
const MIN_TTL: Duration = Duration::from_millis(100);
const MAX_TTL: Duration = Duration::from_secs(24 * 3600);
const MIN_STEP: Duration = Duration::from_millis(1);

/// The settings of a candidate.
///
/// [`for_ttl`](Self::for_ttl) derives all of them from the TTL. They are
/// checked when a campaign begins, and again against the TTL that the store
/// grants: `renew_every + 2 * renew_timeout + reserve <= ttl * (1 - 0.001)`, so
/// that at least two full renewal attempts fit before the time to stop begins.
#[derive(Clone)]
#[non_exhaustive]
pub struct ElectionConfig {
    /// Length of the lease. 100 ms to 24 h, default 10 s. It bounds how long
    /// a crashed leader blocks the next one.
    pub ttl: Duration,
    /// From the sending of one renewal to the next. At least 1 ms, default
    /// `ttl / 3`.
    pub renew_every: Duration,
    /// Limit of one renewal attempt, confirmation included; a failed one is
    /// repeated at once. At least 1 ms, default `ttl / 6`.
    /// [`resign`](crate::Leadership::resign) and
    /// [`proclaim`](crate::Leadership::proclaim) answer within twice this.
    pub renew_timeout: Duration,
    /// Time kept free at the end of every lease for stopping the work: grace
    /// plus abort budget. Default `ttl / 5 + max(200 ms, ttl / 20)`, less
    /// where the TTL is too short for that.
    pub reserve: Duration,
    /// How long the winner waits, renewing its lease, after it became the first
    /// in the queue. For resources that cannot verify tokens. A winner that saw
    /// no predecessor waits as well: one may have gone while it joined. At most
    /// 24 h, default zero.
    pub takeover_delay: Duration,
    /// Asked before each renewal of a leader, from the task that renews: it
    /// must not block. While it answers false or panics, no renewal is sent, so
    /// that a leader without progress loses its lease. Default none: always
    /// renew.
    pub renew_while: Option<RenewWhile>,
}

/// The durations alone, as the pure core needs them.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Timing {
    pub(crate) ttl: Duration,
    pub(crate) renew_every: Duration,
    pub(crate) renew_timeout: Duration,
    pub(crate) reserve: Duration,
    pub(crate) takeover_delay: Duration,
}

// ===== impl ElectionConfig =====

impl ElectionConfig {
    /// Derives every duration from the TTL.
    #[must_use]
    pub fn for_ttl(ttl: Duration) -> Self {
        let renew_every = ttl / 3;
        let renew_timeout = ttl / 6;
        let wanted = ttl / 5 + Duration::from_millis(200).max(ttl / 20);
        let free = without_drift(ttl).saturating_sub(renew_every + 2 * renew_timeout);
        Self {
            ttl,
            renew_every,
            renew_timeout,
            reserve: wanted.min(free),
            takeover_delay: Duration::ZERO,
            renew_while: None,
        }
    }

    /// Sets the TTL alone; see [`for_ttl`](Self::for_ttl) for all at once.
    #[must_use]
    pub fn with_ttl(mut self, ttl: Duration) -> Self {
        self.ttl = ttl;
        self
    }

    /// Sets the time from one renewal to the next.
    #[must_use]
    pub fn with_renew_every(mut self, renew_every: Duration) -> Self {
        self.renew_every = renew_every;
        self
    }

    /// Sets the limit of one renewal attempt.
    #[must_use]
    pub fn with_renew_timeout(mut self, renew_timeout: Duration) -> Self {
        self.renew_timeout = renew_timeout;
        self
    }

    /// Sets the time to stop that is kept free in every lease.
    #[must_use]
    pub fn with_reserve(mut self, reserve: Duration) -> Self {
        self.reserve = reserve;
        self
    }

    /// Sets how long a winner waits after it became the first in the queue.
    #[must_use]
    pub fn with_takeover_delay(mut self, takeover_delay: Duration) -> Self {
        self.takeover_delay = takeover_delay;
        self
    }

    /// Sets the progress check that is asked before each renewal of a leader.
    #[must_use]
    pub fn with_renew_while(
        mut self,
        renew_while: impl Fn() -> bool + Send + Sync + 'static,
    ) -> Self {
        self.renew_while = Some(Arc::new(renew_while));
        self
    }

    /// Checks the settings; every campaign begins with this.
    ///
    /// # Errors
    ///
    /// [`ErrorKind::Invalid`] with the numbers in its text when a duration is
    /// out of bounds or renewals do not fit into the lease.
    pub fn validate(&self) -> Result<(), Error> {
        let timing = self.timing();
        if !(MIN_TTL..=MAX_TTL).contains(&self.ttl) {
            return Err(invalid(format!(
                "ttl {:?} is not within {MIN_TTL:?} and {MAX_TTL:?}",
                self.ttl
            )));
        }
        for (name, value) in [
            ("renew_every", self.renew_every),
            ("renew_timeout", self.renew_timeout),
        ] {
            if value < MIN_STEP {
                return Err(invalid(format!(
                    "{name} {value:?} is shorter than {MIN_STEP:?}"
                )));
            }
        }
        if self.takeover_delay > MAX_TTL {
            return Err(invalid(format!(
                "takeover_delay {:?} is longer than {MAX_TTL:?}",
                self.takeover_delay
            )));
        }
        timing.check(self.ttl)
    }

    pub(crate) fn timing(&self) -> Timing {
        Timing {
            ttl: self.ttl,
            renew_every: self.renew_every,
            renew_timeout: self.renew_timeout,
            reserve: self.reserve,
            takeover_delay: self.takeover_delay,
        }
    }
}

impl Default for ElectionConfig {
    /// The settings for a TTL of 10 s.
    fn default() -> Self {
        Self::for_ttl(Duration::from_secs(10))
    }
}

impl fmt::Debug for ElectionConfig {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ElectionConfig")
            .field("ttl", &self.ttl)
            .field("renew_every", &self.renew_every)
            .field("renew_timeout", &self.renew_timeout)
            .field("reserve", &self.reserve)
            .field("takeover_delay", &self.takeover_delay)
            .field("renew_while", &self.renew_while.is_some())
            .finish()
    }
}

// ===== impl Timing =====

impl Timing {
    /// Checks that two renewal attempts and the reserve fit into `ttl`.
    pub(crate) fn check(&self, ttl: Duration) -> Result<(), Error> {
        let usable = without_drift(ttl);
        let needed = self
            .renew_timeout
            .saturating_mul(2)
            .saturating_add(self.renew_every)
            .saturating_add(self.reserve);
        if needed > usable {
            return Err(invalid(format!(
                "renew_every {:?} + 2 * renew_timeout {:?} + reserve {:?} = {needed:?} \
                 exceeds {usable:?}, the ttl {ttl:?} less its margin for clock drift",
                self.renew_every, self.renew_timeout, self.reserve,
            )));
        }
        Ok(())
    }

    /// The deadline that a confirmed request gives: it counts from when the
    /// request was sent, since the store cannot have started the lease earlier.
    pub(crate) fn deadline(sent: Duration, ttl: Duration) -> Duration {
        sent.saturating_add(without_drift(ttl))
    }

    /// What must be left of the lease when a leadership is handed out.
    pub(crate) fn least_left(&self) -> Duration {
        self.reserve + self.renew_timeout
    }
}

fn without_drift(ttl: Duration) -> Duration {
    ttl - ttl / DRIFT_DIVISOR
}

fn invalid(message: String) -> Error {
    Error::new(ErrorKind::Invalid, message)
}

#[cfg(test)]
mod tests;
