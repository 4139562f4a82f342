//! When a fault that lasts is told: once it lasts, now and then, and once it is over.

use std::time::Duration;

use tokio::time::Instant;

use crate::clock::tokio_now;

/// How often a fault that lasts is told.
const AGAIN: Duration = Duration::from_secs(60);

/// A fault of one kind, which may be there.
#[derive(Debug)]
pub(super) struct Outage {
    /// For how long it may last untold.
    patience: Duration,
    now: Option<Lasts>,
}

#[derive(Debug)]
struct Lasts {
    since: Instant,
    failures: u64,
    told: Option<Instant>,
}

/// What is told of a fault.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Summary {
    pub(super) lasted: Duration,
    pub(super) failures: u64,
}

// ===== impl Outage =====

impl Outage {
    pub(super) fn new(patience: Duration) -> Self {
        Self {
            patience,
            now: None,
        }
    }

    /// Counts a failure, and says what is to be told where it is time to.
    pub(super) fn failed(&mut self) -> Option<Summary> {
        let now = tokio_now();
        let lasts = self.now.get_or_insert(Lasts {
            since: now,
            failures: 0,
            told: None,
        });
        lasts.failures += 1;
        let is_due = match lasts.told {
            Some(told) => now - told >= AGAIN,
            // No sum: the patience may be endless.
            None => now - lasts.since >= self.patience,
        };
        if !is_due {
            return None;
        }
        lasts.told = Some(now);
        Some(lasts.summary(now))
    }

    /// Ends it, and says what is to be told where it was told that it had begun.
    pub(super) fn over(&mut self) -> Option<Summary> {
        let lasts = self.now.take()?;
        lasts.told?;
        Some(lasts.summary(tokio_now()))
    }

    /// Whether it has been told and is not over.
    pub(super) fn is_told(&self) -> bool {
        self.now.as_ref().is_some_and(|lasts| lasts.told.is_some())
    }
}

// ===== impl Lasts =====

impl Lasts {
    fn summary(&self, now: Instant) -> Summary {
        Summary {
            lasted: now - self.since,
            failures: self.failures,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: Duration = Duration::from_secs(1);

    async fn told_in(outage: &mut Outage, seconds: u32) -> usize {
        let mut told = 0;
        for _ in 0..seconds * 4 {
            told += usize::from(outage.failed().is_some());
            tokio::time::advance(SECOND / 4).await;
        }
        told
    }

    #[tokio::test(start_paused = true)]
    async fn it_is_told_when_it_begins_once_a_minute_and_when_it_is_over() {
        let mut outage = Outage::new(Duration::ZERO);
        assert_eq!(told_in(&mut outage, 60).await, 1);
        assert_eq!(told_in(&mut outage, 120).await, 2);
        let over = outage.over().expect("it was told");
        assert_eq!((over.lasted, over.failures), (180 * SECOND, 720));
        assert_eq!(outage.over(), None);
        assert_eq!(told_in(&mut outage, 1).await, 1, "another one");
    }

    #[tokio::test(start_paused = true)]
    async fn what_is_over_within_the_patience_is_never_told() {
        let mut outage = Outage::new(10 * SECOND);
        assert_eq!(told_in(&mut outage, 10).await, 0);
        assert!(!outage.is_told());
        assert_eq!(outage.over(), None);
        assert_eq!(told_in(&mut outage, 11).await, 1);
        assert!(outage.is_told());
    }

    #[tokio::test(start_paused = true)]
    async fn an_endless_patience_tells_nothing() {
        let mut outage = Outage::new(Duration::MAX);
        assert_eq!(told_in(&mut outage, 100).await, 0);
    }
}
