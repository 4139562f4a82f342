//! How long to rest between attempts.

use std::time::Duration;

/// Delays between failed attempts: doubling, capped, jittered and endless.
#[derive(Debug)]
pub(crate) struct Backoff {
    base: Duration,
    cap: Duration,
    failures: u32,
    random: fastrand::Rng,
    // The owner's delay after the next failure.
    offered: Option<Duration>,
}

impl Backoff {
    pub(crate) fn new(base: Duration, cap: Duration, seed: u64) -> Self {
        Self {
            base,
            cap,
            failures: 0,
            random: fastrand::Rng::with_seed(seed),
            offered: None,
        }
    }

    /// Sets the delay after the next failure, if the next thing is one.
    pub(crate) fn offer(&mut self, delay: Option<Duration>) {
        self.offered = delay;
    }

    /// Returns the delay after one more failure: uniform in `[d/2, d]`, where
    /// `d = min(cap, base * 2^n)` after `n` failures before this one.
    ///
    /// A delay that was offered comes before that.
    pub(crate) fn fail(&mut self) -> Duration {
        let before = self.failures;
        self.failures = self.failures.saturating_add(1);
        if let Some(delay) = self.offered.take() {
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
        self.offered = None;
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
    fn an_offered_delay_holds_for_the_next_failure_only() {
        let mut backoff = Backoff::new(BASE, CAP, 7);
        let long = Duration::from_secs(60);
        backoff.offer(Some(long));
        assert_eq!(backoff.fail(), long);
        assert!(backoff.fail() <= BASE * 2);
        backoff.offer(Some(long));
        backoff.reset();
        assert!(backoff.fail() <= BASE);
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
