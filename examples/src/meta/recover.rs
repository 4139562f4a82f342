//! Recovery: everything goes back to the last committed epoch.

use std::collections::BTreeSet;
use std::time::Duration;

use bidi_session::WorkerId;
use tokio::time::{Instant, sleep};

use super::assign::assign;
use super::collect::unexpected;
use super::inject::changed;
use super::lead::{Assigned, Reign, Turn};
use crate::status::Phase;
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
            let output = self.meta.ledger.output();
            if !output.is_present() {
                let folder = output.folder().display();
                return Err(Turn::Failed(format!("the output folder {folder} is gone")));
            }
            if self.recoveries_since_commit > 0 {
                let doublings = (self.recoveries_since_commit - 1).min(10);
                self.pause((PAUSE * (1 << doublings)).min(MAX_PAUSE))
                    .await?;
            }
            self.recoveries_since_commit += 1;
            self.has_leftovers = true;
            let up = self.wait_for_workers().await?;
            match self.reset(&up).await {
                Err(Turn::Recover(why)) => self.meta.hindered(&why),
                done => return done,
            }
        }
    }

    /// Returns the workers that are up, at least one; those expected back get some time.
    async fn wait_for_workers(&mut self) -> Result<Vec<WorkerId>, Turn> {
        // In the first round everybody is expected, later those who took part.
        let is_first = self.last.n == 0;
        let taking_part: BTreeSet<WorkerId> = self.assigned.keys().cloned().collect();
        let deadline = Instant::now() + self.settings().patience;
        loop {
            self.sync_pool();
            self.show(Phase::Recovering);
            let (up, away): (Vec<WorkerId>, Vec<WorkerId>) = self
                .inserted
                .iter()
                .cloned()
                .partition(|w| self.session(w).is_some());
            let mut missing = away;
            missing.retain(|w| is_first || taking_part.contains(w));
            let left = deadline.saturating_duration_since(Instant::now());
            // Who stays away is named in the status; the others go on without.
            if !up.is_empty() && (missing.is_empty() || left.is_zero()) {
                return Ok(up);
            }
            let look = left.clamp(PAUSE, MAX_PAUSE);
            tokio::select! {
                () = self.stop.cancelled() => return Err(Turn::Stopped),
                () = changed(&mut self.roster) => {}
                _ = self.pool.ready(&missing, look), if !missing.is_empty() => {}
                () = sleep(look), if missing.is_empty() => {}
            }
        }
    }

    async fn reset(&mut self, up: &[WorkerId]) -> Result<(), Turn> {
        let positions = self.plan.reached(&self.head.positions);
        let shares = assign(&self.plan, &positions, &self.with_slots(up));
        let quota_bytes = self.quota(shares.len());
        self.drain_events();
        let targets: Vec<WorkerId> = shares.keys().cloned().collect();
        let sessions: Vec<Option<u64>> = targets.iter().map(|w| self.session(w)).collect();
        let (base, parts) = (self.head.epoch, self.head.parts.clone());
        let round = self.send_round(&targets, |worker| {
            command::Kind::Reset(Reset {
                base,
                positions: shares.get(worker).cloned().unwrap_or_default(),
                quota_bytes,
                parts: parts.clone(),
            })
        })?;
        self.joined.clear();
        self.assigned = targets
            .into_iter()
            .zip(sessions)
            .map(|(worker, generation)| {
                let share = shares.get(&worker).into_iter().flatten();
                let assigned = Assigned {
                    generation: generation.unwrap_or_default(),
                    progress: Progress::default(),
                    shards: share.map(|position| position.shard).collect(),
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

    fn with_slots(&self, up: &[WorkerId]) -> Vec<(WorkerId, usize)> {
        let roster = self.roster.borrow();
        let slots = |worker| roster.get(worker).map_or(usize::MAX, |place| place.slots);
        up.iter().map(|w| (w.clone(), slots(w))).collect()
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
