//! The memory backend's side of the seam.

use std::{
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use async_trait::async_trait;
use tokio::{sync::watch, time::Instant};

use super::queue::Queue;
use crate::{
    CandidateId, Error, ErrorKind, Grant, Leader, Loss, Place, Renewal, Standing, Store,
    clock::tokio_now,
};

/// The scope of every token of this backend: the unscoped default.
const SCOPE: &str = "";

/// The store of [`MemoryElection`](crate::MemoryElection).
///
/// Public so that tests can put faults of their own between it and a
/// [`StoreElection`](crate::StoreElection). Clones share one state. Its time is
/// tokio's clock.
#[derive(Clone, Debug)]
pub struct MemoryStore {
    shared: Arc<Shared>,
}

#[derive(Debug)]
struct Shared {
    queue: Mutex<Queue>,
    changed: watch::Sender<()>,
}

// ===== impl MemoryStore =====

impl MemoryStore {
    /// Creates an empty store whose first place gets `first_token`.
    #[must_use]
    pub fn new(first_token: u64) -> Self {
        Self {
            shared: Arc::new(Shared {
                queue: Mutex::new(Queue::new(first_token)),
                changed: watch::Sender::new(()),
            }),
        }
    }

    /// Does what the holder of `token` asks for, once it is not cut off.
    async fn serve<T>(&self, token: u64, act: impl FnOnce(&mut Queue, Instant) -> T) -> T {
        let mut changed = self.shared.changed.subscribe();
        loop {
            {
                let (mut queue, now) = self.present();
                if !queue.is_cut(token) {
                    return act(&mut queue, now);
                }
            }
            // The sender lives in `self`, so it does not close.
            let _ = changed.changed().await;
        }
    }

    /// Returns the state without the leases that have ended, and the time.
    pub(super) fn present(&self) -> (MutexGuard<'_, Queue>, Instant) {
        let mut queue = self.lock();
        let now = tokio_now();
        if queue.purge(now) {
            self.changed();
        }
        (queue, now)
    }

    #[cfg(feature = "test-util")]
    pub(super) fn change(&self, change: impl FnOnce(&mut Queue)) {
        change(&mut self.lock());
        self.changed();
    }

    fn changed(&self) {
        self.shared.changed.send_replace(());
    }

    fn lock(&self) -> MutexGuard<'_, Queue> {
        // No code of a caller runs under the lock.
        let queue = &self.shared.queue;
        queue.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[async_trait]
impl Store for MemoryStore {
    async fn join(&self, id: CandidateId, value: &[u8], ttl: Duration) -> Result<Grant, Error> {
        let (mut queue, now) = self.present();
        let (token, ttl) = queue
            .join(now, id, value, ttl)
            .ok_or_else(|| Error::new(ErrorKind::Invalid, "the tokens are used up"))?;
        self.changed();
        Ok(Grant::new(Place::new(id, token, SCOPE), ttl))
    }

    async fn wait(&self, place: &Place, known: Standing) -> Result<Standing, Error> {
        let mut changed = self.shared.changed.subscribe();
        loop {
            let read = |queue: &mut Queue, _| (queue.standing(place.token), queue.next_end());
            let (standing, next_end) = self.serve(place.token, read).await;
            if standing != known {
                return Ok(standing);
            }
            next_change(&mut changed, next_end).await;
        }
    }

    async fn verify(&self, place: &Place) -> Result<Standing, Error> {
        let read = |queue: &mut Queue, _| queue.standing(place.token);
        Ok(self.serve(place.token, read).await)
    }

    async fn renew(&self, place: &Place) -> Result<Renewal, Error> {
        let renew = |queue: &mut Queue, now| queue.renew(now, place.token);
        Ok(match self.serve(place.token, renew).await {
            Some(ttl) => Renewal::Confirmed(ttl),
            None => Renewal::Gone(Loss::Removed),
        })
    }

    async fn proclaim(&self, place: &Place, value: &[u8]) -> Result<Standing, Error> {
        let write = |queue: &mut Queue, _| {
            queue.set_value(place.token, value);
            queue.standing(place.token)
        };
        let standing = self.serve(place.token, write).await;
        self.changed();
        Ok(standing)
    }

    async fn leave(&self, id: CandidateId, token: Option<u64>) -> Result<(), Error> {
        let Some(token) = token.or_else(|| self.lock().token_of(id)) else {
            return Ok(());
        };
        if self.serve(token, |queue, _| queue.leave(id, token)).await {
            self.changed();
        }
        Ok(())
    }

    async fn observe(&self, leader: &watch::Sender<Option<Leader>>) -> Result<(), Error> {
        let mut changed = self.shared.changed.subscribe();
        loop {
            let (now_leads, next_end) = {
                let (queue, _) = self.present();
                (queue.leader(SCOPE), queue.next_end())
            };
            leader.send_if_modified(|shown| {
                let differs = *shown != now_leads;
                *shown = now_leads;
                differs
            });
            next_change(&mut changed, next_end).await;
        }
    }
}

/// Waits for a change of the state or the end of a lease.
async fn next_change(changed: &mut watch::Receiver<()>, next_end: Option<Instant>) {
    let lease_ends = async {
        match next_end {
            Some(end) => tokio::time::sleep_until(end).await,
            None => std::future::pending().await,
        }
    };
    tokio::select! {
        biased;
        // An error would mean that the store is gone; its callers hold it.
        _ = changed.changed() => {}
        () = lease_ends => {}
    }
}
