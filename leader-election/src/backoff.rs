//! The pause before a failed call to the store is repeated.

use std::time::Duration;

const FIRST: Duration = Duration::from_millis(100);

/// Endless exponential backoff: uniform in `[d / 2, d]` with
/// `d = min(cap, 100 ms * 2^n)`.
#[derive(Debug)]
pub(crate) struct Backoff {
    cap: Duration,
    failures: u32,
    random: fastrand::Rng,
}

// ===== impl Backoff =====

impl Backoff {
    pub(crate) fn new(cap: Duration, seed: u64) -> Self {
        Self {
            cap,
            failures: 0,
            random: fastrand::Rng::with_seed(seed),
        }
    }

    /// Counts a failure and returns the pause before the next try.
    pub(crate) fn next(&mut self) -> Duration {
        let longest = FIRST.saturating_mul(1 << self.failures.min(16));
        self.failures = self.failures.saturating_add(1);
        let pause = longest.min(self.cap);
        pause.mul_f64(0.5 + self.random.f64() / 2.0)
    }

    /// Like [`next`](Self::next), but the first failure costs no pause.
    pub(crate) fn next_after_first(&mut self) -> Duration {
        if self.failures == 0 {
            self.failures = 1;
            return Duration::ZERO;
        }
        self.next()
    }

    pub(crate) fn reset(&mut self) {
        self.failures = 0;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pauses_grow_up_to_the_cap_and_start_again_after_a_reset() {
        let cap = Duration::from_secs(2);
        let mut backoff = Backoff::new(cap, 7);
        for doubling in 0..40 {
            let most = FIRST.saturating_mul(1 << doubling.min(16)).min(cap);
            let pause = backoff.next();
            assert!(pause >= most / 2 && pause <= most, "{doubling}: {pause:?}");
        }
        backoff.reset();
        assert!(backoff.next() <= FIRST);
    }

    #[test]
    fn first_failure_may_be_free_the_second_never_is() {
        let mut backoff = Backoff::new(Duration::from_secs(2), 7);
        assert_eq!(backoff.next_after_first(), Duration::ZERO);
        assert!(backoff.next_after_first() >= FIRST / 2);
    }
}
