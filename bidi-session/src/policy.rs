//! How long to rest after a failed attempt, as the owner wants it.

use std::fmt;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::time::Duration;

/// Longest delay that a policy can ask for.
const MAX_DELAY: Duration = Duration::from_secs(24 * 3600);

/// Failures in a row that are shown to a policy of the `backoff` crate; its last delay
/// repeats.
#[cfg(feature = "backoff")]
const MAX_STEPS: u32 = 256;

/// Delays between failed attempts, in place of the pool's own.
///
/// See [`PoolConfig::with_backoff_policy`](crate::PoolConfig::with_backoff_policy).
/// Retrying has no end, whatever the policy says. Clones share the function.
#[derive(Clone)]
pub struct BackoffPolicy {
    delay: Arc<Delay>,
}

type Delay = dyn Fn(u32) -> Option<Duration> + Send + Sync;

// ===== impl BackoffPolicy =====

impl BackoffPolicy {
    /// Rests as long as this function says, at most one day.
    ///
    /// It gets the number of failures before this one, from 0, since the last healthy
    /// session. It must not block. It is also asked at the end of a healthy session, after
    /// which the pool does not rest. Where it panics, the pool's own delay holds.
    ///
    /// ```
    /// use bidi_session::{BackoffPolicy, PoolConfig};
    /// use std::time::Duration;
    /// let policy = BackoffPolicy::new(|failures| Duration::from_secs(1) * failures.min(30));
    /// let config = PoolConfig::new(1).with_backoff_policy(policy);
    /// ```
    pub fn new(delay: impl Fn(u32) -> Duration + Send + Sync + 'static) -> Self {
        Self {
            delay: Arc::new(move |failures| Some(delay(failures))),
        }
    }

    /// Rests as a policy of the `backoff` crate says.
    ///
    /// The policy is cloned, reset and asked anew at each failure, so it does not count
    /// the time that passes, and where it gives up its last delay repeats for ever; so
    /// does its 256th. Where it gives up at once the pool's own delays hold.
    ///
    /// That crate is unmaintained (RUSTSEC-2025-0012): this is for those who have
    /// policies already.
    #[cfg(feature = "backoff")]
    #[cfg_attr(docsrs, doc(cfg(feature = "backoff")))]
    pub fn from_backoff<B>(policy: B) -> Self
    where
        B: backoff::backoff::Backoff + Clone + Send + Sync + 'static,
    {
        let delay = move |failures: u32| {
            let mut policy = policy.clone();
            policy.reset();
            (0..=failures.min(MAX_STEPS - 1))
                .map_while(|_| policy.next_backoff())
                .last()
        };
        Self {
            delay: Arc::new(delay),
        }
    }

    /// Returns the delay, or `None` where the policy has none.
    pub(crate) fn delay(&self, failures: u32) -> Option<Duration> {
        let asked = catch_unwind(AssertUnwindSafe(|| (self.delay)(failures)));
        let delay = asked.ok().flatten()?;
        Some(delay.min(MAX_DELAY))
    }
}

impl fmt::Debug for BackoffPolicy {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("BackoffPolicy").finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_policy_is_asked_for_each_failure_and_bounded() {
        let policy = BackoffPolicy::new(|failures| Duration::from_secs(u64::from(failures)));
        assert_eq!(policy.delay(0), Some(Duration::ZERO));
        assert_eq!(policy.delay(7), Some(Duration::from_secs(7)));
        assert_eq!(policy.delay(u32::MAX), Some(MAX_DELAY));
        assert_eq!(policy.clone().delay(1), Some(Duration::from_secs(1)));
    }

    #[test]
    fn a_policy_that_panics_has_no_delay() {
        let policy = BackoffPolicy::new(|failures| {
            assert_ne!(failures, 1, "the test asked for it");
            Duration::MAX
        });
        assert_eq!(policy.delay(0), Some(MAX_DELAY));
        assert_eq!(policy.delay(1), None);
        assert_eq!(policy.delay(2), Some(MAX_DELAY));
    }

    #[cfg(feature = "backoff")]
    mod converted {
        use backoff::ExponentialBackoffBuilder;
        use backoff::backoff::Backoff;

        use super::*;

        const SECOND: Duration = Duration::from_secs(1);

        #[test]
        fn it_doubles_as_the_policy_does_and_repeats_its_last_delay() {
            let policy = ExponentialBackoffBuilder::new()
                .with_initial_interval(SECOND)
                .with_multiplier(2.0)
                .with_max_interval(8 * SECOND)
                .with_randomization_factor(0.0)
                .with_max_elapsed_time(None)
                .build();
            let policy = BackoffPolicy::from_backoff(policy);
            let delays = [0, 1, 2, 3, 4, 5, u32::MAX].map(|n| policy.delay(n).unwrap());
            assert_eq!(delays, [1, 2, 4, 8, 8, 8, 8].map(|n| n * SECOND));
        }

        #[test]
        fn time_that_passes_does_not_end_it() {
            let limit = Duration::from_millis(50);
            let mut old = ExponentialBackoffBuilder::new()
                .with_initial_interval(SECOND / 1000)
                .with_randomization_factor(0.0)
                .with_max_elapsed_time(Some(limit))
                .build();
            std::thread::sleep(2 * limit);
            assert_eq!(old.next_backoff(), None, "it has not given up");
            let policy = BackoffPolicy::from_backoff(old);
            for failures in [0, 0, 1, 1_000_000] {
                assert!(policy.delay(failures).is_some(), "{failures}");
            }
            std::thread::sleep(2 * limit);
            assert_eq!(policy.delay(0), Some(SECOND / 1000));
        }

        #[derive(Clone)]
        struct Stop;

        impl Backoff for Stop {
            fn next_backoff(&mut self) -> Option<Duration> {
                None
            }
        }

        #[test]
        fn one_that_never_retries_leaves_the_pool_its_own_delays() {
            assert_eq!(BackoffPolicy::from_backoff(Stop).delay(3), None);
        }
    }
}
