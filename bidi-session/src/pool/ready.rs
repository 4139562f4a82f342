//! Waiting until workers have sessions.

use std::time::Duration;

use crate::connector::Connector;
use crate::error::NotReady;
use crate::pool::Pool;
use crate::worker::WorkerId;

impl<C: Connector> Pool<C> {
    /// Waits, at most `wait`, until all these workers have a session at once.
    ///
    /// It says nothing about the next moment: a session can end at any time.
    ///
    /// # Errors
    ///
    /// [`NotReady`] with each missing worker, since when and why: after `wait`, or at
    /// once when one of them is not in the pool or the pool is closed.
    ///
    /// # Cancel safety
    ///
    /// Cancel safe: it only looks.
    pub async fn ready<I>(&self, workers: I, wait: Duration) -> Result<(), NotReady>
    where
        I: IntoIterator,
        I::Item: AsRef<str>,
    {
        let workers = workers.into_iter();
        let workers: Vec<WorkerId> = workers.map(|id| WorkerId::from(id.as_ref())).collect();
        let clock = self.shared().clock;
        let deadline = clock.now().saturating_add(wait);
        loop {
            // Listens before it looks.
            let left = self.shared().left.notified();
            let missing = self.missing(&workers);
            let Some(missing) = missing else {
                return Ok(());
            };
            let is_hopeless = missing.is_closed || missing.missing.iter().any(|m| m.1.is_none());
            if is_hopeless || clock.now() >= deadline {
                return Err(missing);
            }
            tokio::select! {
                biased;
                () = left => {}
                () = self.all_settled(&missing) => {}
                () = clock.sleep_until(deadline) => {}
            }
        }
    }

    fn missing(&self, workers: &[WorkerId]) -> Option<NotReady> {
        let shared = self.shared();
        let now = shared.clock.now();
        let missing: Vec<_> = workers
            .iter()
            .map(|worker| (worker, shared.slot(worker.as_str())))
            .filter(|(_, slot)| slot.as_ref().is_none_or(|slot| slot.generation().is_none()))
            .map(|(worker, slot)| (worker.clone(), slot.map(|slot| slot.state(now))))
            .collect();
        let is_closed = shared.is_closed();
        (is_closed || !missing.is_empty()).then_some(NotReady { missing, is_closed })
    }

    /// Waits until each of these had a session once, one after the other: cheap for
    /// many workers, and looked at again by the caller.
    async fn all_settled(&self, waited: &NotReady) {
        for (worker, _) in &waited.missing {
            if let Some(slot) = self.shared().slot(worker.as_str()) {
                slot.settled().await;
            }
        }
    }
}
