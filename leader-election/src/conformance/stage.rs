//! What the claims are played on: elections, candidates in the background, bounds.

use std::{
    pin::Pin,
    sync::{Arc, Mutex, PoisonError},
    task::{Context, Poll},
    time::Duration,
};

use tokio::{task::JoinHandle, time::timeout};

use super::Harness;
use crate::{Election, ElectionConfig, Error, Leadership, Resigned, clock::tokio_now};

/// How a claim ends, or why it is broken.
pub(super) type Outcome<T = ()> = Result<T, String>;

/// How often a condition is looked at that nothing announces.
const LOOK_EVERY: Duration = Duration::from_millis(5);

/// The harness with its derived times.
pub(super) struct Stage<'a> {
    pub(super) harness: &'a dyn Harness,
    pub(super) ttl: Duration,
    /// What must happen at all happens within this.
    pub(super) patience: Duration,
}

/// A campaign in the background, withdrawn on drop.
pub(super) struct Campaign {
    task: JoinHandle<Result<Leadership, Error>>,
    patience: Duration,
}

/// Fails a claim with a text unless the condition holds.
macro_rules! ensure {
    ($condition:expr, $($text:tt)+) => {
        if !$condition {
            return Err(format!($($text)+));
        }
    };
}
pub(super) use ensure;

// ===== impl Stage =====

impl<'a> Stage<'a> {
    pub(super) fn new(harness: &'a dyn Harness) -> Self {
        let ttl = harness.ttl();
        Self {
            harness,
            ttl,
            patience: 10 * ttl,
        }
    }

    /// Settings whose leases end soon.
    pub(super) fn short(&self) -> ElectionConfig {
        ElectionConfig::for_ttl(self.ttl)
    }

    /// Settings with time for a cut within a lease.
    pub(super) fn medium(&self) -> ElectionConfig {
        ElectionConfig::for_ttl(3 * self.ttl)
    }

    /// Settings whose leases do not end within the patience: what happens by then
    /// happens before.
    pub(super) fn long(&self) -> ElectionConfig {
        ElectionConfig::for_ttl(30 * self.ttl)
    }

    /// Opens the election on a node.
    pub(super) async fn node(&self, node: usize, config: ElectionConfig) -> Arc<dyn Election> {
        self.harness.election(node, config).await
    }

    /// Campaigns in the background.
    pub(super) fn campaign(&self, election: &Arc<dyn Election>, value: &[u8]) -> Campaign {
        let (election, value) = (Arc::clone(election), value.to_vec());
        Campaign {
            task: tokio::spawn(async move { election.campaign(&value).await }),
            patience: self.patience,
        }
    }

    /// Campaigns where nobody is ahead.
    pub(super) async fn lead(
        &self,
        election: &Arc<dyn Election>,
        value: &[u8],
    ) -> Outcome<Leadership> {
        self.campaign(election, value)
            .wins("the only candidate")
            .await
    }

    /// Waits until there are so many places and returns their tokens.
    pub(super) async fn queued(&self, count: usize) -> Outcome<Vec<u64>> {
        let began = tokio_now();
        loop {
            let queue = self.harness.queue().await;
            if queue.len() == count {
                return Ok(queue);
            }
            ensure!(
                began.elapsed() < self.patience,
                "the queue is {queue:?}, {count} places were expected"
            );
            tokio::time::sleep(LOOK_EVERY).await;
        }
    }

    /// Campaigns in the background and waits until it is the last of `count`.
    pub(super) async fn queue_up(
        &self,
        election: &Arc<dyn Election>,
        value: &[u8],
        count: usize,
    ) -> Outcome<Campaign> {
        let campaign = self.campaign(election, value);
        self.queued(count).await?;
        Ok(campaign)
    }

    /// Waits for what must happen.
    pub(super) async fn soon<T>(&self, what: &str, happens: impl Future<Output = T>) -> Outcome<T> {
        let happened = timeout(self.patience, happens).await;
        happened.map_err(|_| format!("{what}: not within {:?}", self.patience))
    }

    pub(super) async fn released(&self, leadership: &Leadership) -> Outcome {
        let outcome = leadership.resign().await;
        ensure!(
            outcome == Resigned::Released,
            "resigning token {} with a whole way to the store: {outcome}",
            leadership.token()
        );
        Ok(())
    }
}

// ===== impl Campaign =====

impl Campaign {
    /// Waits until it wins.
    pub(super) async fn wins(mut self, who: &str) -> Outcome<Leadership> {
        match timeout(self.patience, &mut self).await {
            Ok(Ok(leadership)) => Ok(leadership),
            Ok(Err(error)) => Err(format!("{who} failed: {error}")),
            Err(_) => Err(format!("{who} does not lead within {:?}", self.patience)),
        }
    }

    pub(super) fn is_over(&self) -> bool {
        self.task.is_finished()
    }
}

impl Future for Campaign {
    type Output = Result<Leadership, String>;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        Pin::new(&mut self.task).poll(context).map(|done| {
            let won = done.map_err(|broken| format!("the campaign broke: {broken}"))?;
            won.map_err(|error| format!("{error} ({:?})", error.kind()))
        })
    }
}

impl Drop for Campaign {
    fn drop(&mut self) {
        self.task.abort();
    }
}

/// Keeps the highest deadline that a leadership had.
pub(super) fn follow(leadership: &Leadership) -> Arc<Mutex<Duration>> {
    let highest = Arc::new(Mutex::new(Duration::ZERO));
    let seen = Arc::clone(&highest);
    leadership.follow(move |deadline| {
        let mut highest = seen.lock().unwrap_or_else(PoisonError::into_inner);
        *highest = deadline.max(*highest);
    });
    highest
}
