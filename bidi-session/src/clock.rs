//! The crate's only clock: tokio's, so that paused time moves everything.

use std::time::Duration;

use tokio::time::Instant;

/// Time since the clock was started.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Clock {
    start: Instant,
}

impl Clock {
    pub(crate) fn start() -> Self {
        Self {
            start: Instant::now(),
        }
    }

    pub(crate) fn now(self) -> Duration {
        self.start.elapsed()
    }

    /// Sleeps until that long after the start; for ever where that is out of reach.
    pub(crate) async fn sleep_until(self, at: Duration) {
        match self.start.checked_add(at) {
            Some(instant) => tokio::time::sleep_until(instant).await,
            None => std::future::pending().await,
        }
    }
}
