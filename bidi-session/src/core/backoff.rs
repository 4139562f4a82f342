//! How long to rest between attempts.

use std::time::Duration;

use crate::policy::BackoffPolicy;

/// Delays between failed attempts: doubling, capped, jittered and endless.
#[derive(Debug)]
pub(crate) struct Backoff {
    base: Duration,
    cap: Duration,
    failures: u32,
    random: fastrand::Rng,
    policy: Option<BackoffPolicy>,
}

impl Backoff {
    pub(crate) fn new(base: Duration, cap: Duration, seed: u64) -> Self {
        Self {
            base,
            cap,
            failures: 0,
            random: fastrand::Rng::with_seed(seed),
            policy: None,
        }
    }

    /// Asks the owner's policy, where it has a delay.
    pub(crate) fn set_policy(&mut self, policy: Option<BackoffPolicy>) {
        self.policy = policy;
    }

    /// Returns the delay after one more failure: uniform in `[d/2, d]`, where
    /// `d = min(cap, base * 2^n)` after `n` failures before this one.
    ///
    /// The owner's policy comes before that.
    pub(crate) fn fail(&mut self) -> Duration {
        let before = self.failures;
        self.failures = self.failures.saturating_add(1);
        let policy = self.policy.as_ref();
        if let Some(delay) = policy.and_then(|policy| policy.delay(before)) {
            return delay;
        }
        let doubled = 2_u32.checked_pow(before);
        let whole = doubled.and_then(|factor| self.base.checked_mul(factor));
        let whole = whole.map_or(self.cap, |delay| delay.min(self.cap));
        let half = whole / 2;
        half + (whole - half).mul_f64(self.random.f64())
    }

    /// Forgets the failures: the next attempt is made at once.
    pub(crate) fn reset(&mut self) {
        self.failures = 0;
    }

    /// Returns how many attempts have failed since the last reset.
    pub(crate) fn failures(&self) -> u32 {
        self.failures
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const BASE: Duration = Duration::from_millis(100);
    const CAP: Duration = Duration::from_secs(5);

    #[test]
    fn each_delay_lies_between_half_and_the_whole() {
        let wholes = [100, 200, 400, 800, 1600, 3200, 5000, 5000, 5000];
        for seed in 0..500 {
            let mut backoff = Backoff::new(BASE, CAP, seed);
            for whole in wholes.map(Duration::from_millis) {
                let delay = backoff.fail();
                assert!(
                    delay >= whole / 2 && delay <= whole,
                    "{delay:?} of {whole:?}"
                );
            }
        }
    }

    #[test]
    fn jitter_is_spread_over_the_whole_range() {
        let mut buckets = [0_u32; 10];
        for seed in 0..10_000 {
            let delay = Backoff::new(BASE, CAP, seed).fail();
            let share = (delay - BASE / 2).as_secs_f64() / (BASE / 2).as_secs_f64();
            buckets[((share * 10.0) as usize).min(9)] += 1;
        }
        assert!(
            buckets.iter().all(|count| (800..1200).contains(count)),
            "{buckets:?}"
        );
    }

    #[test]
    fn it_never_ends_and_starts_again_after_a_reset() {
        let mut backoff = Backoff::new(BASE, CAP, 7);
        for _ in 0..10_000 {
            assert!(backoff.fail() <= CAP);
        }
        assert_eq!(backoff.failures(), 10_000);
        backoff.reset();
        assert!(backoff.fail() <= BASE);
    }

    #[test]
    fn a_policy_replaces_the_delays_and_gets_the_failures_before() {
        let mut backoff = Backoff::new(BASE, CAP, 7);
        backoff.set_policy(Some(BackoffPolicy::new(|failures| {
            assert_ne!(failures, 2, "the test asked for it");
            Duration::from_secs(10) * (failures + 1)
        })));
        assert_eq!(backoff.fail(), Duration::from_secs(10));
        assert_eq!(backoff.fail(), Duration::from_secs(20));
        assert!(backoff.fail() <= BASE * 4, "not the default");
        assert_eq!(backoff.fail(), Duration::from_secs(40));
        backoff.reset();
        assert_eq!(backoff.fail(), Duration::from_secs(10));
        assert_eq!(backoff.failures(), 1);
    }

    #[test]
    fn the_same_seed_gives_the_same_delays() {
        let delays = |seed| {
            let mut backoff = Backoff::new(BASE, CAP, seed);
            (0..20).map(|_| backoff.fail()).collect::<Vec<_>>()
        };
        assert_eq!(delays(3), delays(3));
        assert_ne!(delays(3), delays(4));
    }
}
