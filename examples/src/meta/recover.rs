//! Recovery: everything goes back to the last committed epoch.

use std::time::Duration;

use bidi_session::WorkerId;
use tokio::time::sleep;

use super::assign::assign;
use super::collect::unexpected;
use super::lead::{Assigned, Reign, Turn};
use crate::wire::{Progress, Reset, command, reply};

/// Pause between two looks at the workers, and the first before a recovery that
/// follows another one without a commit in between; it doubles then.
const PAUSE: Duration = Duration::from_millis(50);

/// The longest such pause.
const MAX_PAUSE: Duration = Duration::from_secs(1);

impl Reign<'_> {
    /// Waits for workers, hands out the shards at the head's positions, and
    /// returns when each worker has confirmed.
    pub(super) async fn recover(&mut self, cause: Option<String>) -> Result<(), Turn> {
        if let Some(cause) = cause {
            self.meta
                .journal
                .recovered(self.token, self.head.id(), &cause);
        }
        loop {
            if !self.meta.store.is_present() {
                let folder = self.meta.store.folder().display();
                return Err(Turn::Failed(format!("the output folder {folder} is gone")));
            }
            if self.recoveries_since_commit > 0 {
                let doublings = (self.recoveries_since_commit - 1).min(10);
                self.pause((PAUSE * (1 << doublings)).min(MAX_PAUSE))
                    .await?;
            }
            self.recoveries_since_commit += 1;
            let up = self.wait_for_workers().await?;
            match self.reset(&up).await {
                Err(Turn::Recover(why)) => self.meta.hindered(&why),
                done => return done,
            }
        }
    }

    /// Returns the workers that are up, at least one; those expected back get some time.
    async fn wait_for_workers(&mut self) -> Result<Vec<WorkerId>, Turn> {
        let all = || self.meta.workers.iter().map(|(worker, _)| worker);
        // In the first round everybody is expected, later those who took part.
        let expected: Vec<WorkerId> = if self.last.n == 0 {
            all().cloned().collect()
        } else {
            self.assigned.keys().cloned().collect()
        };
        let ready = self.pool.ready(&expected, self.settings().patience);
        tokio::select! {
            () = self.stop.cancelled() => return Err(Turn::Stopped),
            // Who is missing is named by the pool's own events; the others go on without.
            _ = ready => {}
        }
        loop {
            let up: Vec<WorkerId> = all()
                .filter(|w| self.session(w).is_some())
                .cloned()
                .collect();
            if !up.is_empty() {
                return Ok(up);
            }
            self.pause(PAUSE).await?;
        }
    }

    async fn reset(&mut self, up: &[WorkerId]) -> Result<(), Turn> {
        let positions = self.meta.plan.reached(&self.head.positions);
        let shares = assign(&self.meta.plan, &positions, up);
        let quota_bytes = self.quota(shares.len());
        self.drain_events();
        let targets: Vec<WorkerId> = shares.keys().cloned().collect();
        let sessions: Vec<Option<u64>> = targets.iter().map(|w| self.session(w)).collect();
        let base = self.head.epoch;
        let round = self.send_round(&targets, |worker| {
            command::Kind::Reset(Reset {
                base,
                positions: shares.get(worker).cloned().unwrap_or_default(),
                quota_bytes,
            })
        })?;
        self.joined.clear();
        self.assigned = targets
            .into_iter()
            .zip(sessions)
            .map(|(worker, generation)| {
                let assigned = Assigned {
                    generation: generation.unwrap_or_default(),
                    progress: Progress::default(),
                };
                (worker, assigned)
            })
            .collect();
        for (worker, reply) in self.collect(round).await? {
            let Some(reply::Kind::ResetDone(_)) = reply.kind else {
                return Err(unexpected(&worker, reply));
            };
        }
        Ok(())
    }

    /// Returns what each of `workers` may read until the next barrier.
    pub(super) fn quota(&self, workers: usize) -> u64 {
        (self.settings().epoch_bytes / workers.max(1) as u64).max(1)
    }

    async fn pause(&self, wait: Duration) -> Result<(), Turn> {
        tokio::select! {
            () = self.stop.cancelled() => Err(Turn::Stopped),
            () = sleep(wait) => Ok(()),
        }
    }
}
