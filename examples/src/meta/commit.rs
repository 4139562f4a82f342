//! The commit of an epoch: under the guard here, under the token at the store.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use bidi_session::WorkerId;
use fencing::Guard;

use super::collect::unexpected;
use super::lead::{Reign, Turn};
use crate::controls::{Half, act, is_off};
use crate::input::advance;
use crate::status::Phase;
use crate::store::{CommitError, Ledger};
use crate::wire::{Manifest, Reply, reply};

/// Pause before a commit of unknown outcome is repeated.
const REPEAT: Duration = Duration::from_millis(50);

/// Who commits, as far as it knows.
#[derive(Clone, Copy, Debug)]
#[non_exhaustive]
pub enum Holder<'a> {
    /// A leader that asks its guard first.
    Guarded(&'a Guard),
    /// One that does not: only to show in a test that the store refuses as well.
    Unguarded,
}

/// Why an epoch was not committed.
#[derive(Debug)]
#[non_exhaustive]
pub enum Refused {
    /// The guard refuses: nothing was sent to the store.
    Guard(fencing::Refused),
    /// The store refuses.
    Store(CommitError),
}

impl fmt::Display for Refused {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Guard(error) => write!(f, "refused by the guard: {error}"),
            Self::Store(error) => write!(f, "refused by the store: {error}"),
        }
    }
}

impl std::error::Error for Refused {}

/// Commits one epoch: every leader's only way to the store.
///
/// # Errors
///
/// [`Refused`]; where the store's outcome is unknown, call it again with the
/// identical manifest.
///
/// # Cancel safety
///
/// A dropped commit may still land; its outcome is unknown until the chain is read.
pub async fn commit(
    holder: Holder<'_>,
    ledger: &dyn Ledger,
    token: u64,
    manifest: &Manifest,
) -> Result<(), Refused> {
    let permit = match holder {
        Holder::Guarded(guard) => Some(guard.permit().map_err(Refused::Guard)?),
        Holder::Unguarded => None,
    };
    act(ledger.output().folder(), token);
    let committed = ledger.commit(token, manifest).await;
    drop(permit);
    committed.map_err(Refused::Store)
}

impl Reign<'_> {
    /// Makes the epoch durable; an unknown outcome is settled before anything else.
    pub(super) async fn commit_epoch(
        &mut self,
        answers: Vec<(WorkerId, Reply)>,
    ) -> Result<(), Turn> {
        self.show(Phase::Committing);
        let plain = self.manifest(answers)?;
        let mut manifest = self.with_additions(&plain)?;
        let holder = match is_off(Half::Guard) {
            false => Holder::Guarded(self.guard),
            true => Holder::Unguarded,
        };
        let ledger = &*self.meta.ledger;
        while let Err(error) = commit(holder, ledger, self.token, &manifest).await {
            match error {
                Refused::Store(CommitError::Unknown(_) | CommitError::Fence(_)) => {
                    self.meta.hindered(&error.to_string());
                    // Who gives the leadership up may leave the outcome open: the next
                    // leader reads it.
                    tokio::select! {
                        () = self.stop.cancelled() => return Err(Turn::Stopped),
                        () = tokio::time::sleep(REPEAT) => {}
                    }
                }
                // For certain: no attempt of it can land any more.
                Refused::Store(CommitError::Withdrawn) => {
                    manifest.clone_from(&plain);
                    self.complete(&mut manifest)?;
                }
                Refused::Store(CommitError::Broken(why)) => return Err(Turn::Failed(why)),
                other => return Err(Turn::Lost(other.to_string())),
            }
        }
        self.committed(manifest).await
    }

    async fn committed(&mut self, manifest: Manifest) -> Result<(), Turn> {
        let latency = self.injected_at.elapsed();
        let counted = self.plan.counted(&manifest.positions);
        self.meta.journal.committed(latency);
        self.meta.status.send_modify(|status| {
            status.epochs += 1;
            status.trouble.clear();
            status.rows += manifest.rows;
            status.committed_bytes = counted;
            status.latency = latency;
        });
        self.head = manifest;
        self.show(Phase::Counting);
        self.clean();
        self.meta.hooks.committed(counted).await;
        Ok(())
    }

    fn manifest(&self, answers: Vec<(WorkerId, Reply)>) -> Result<Manifest, Turn> {
        let mut manifest = Manifest {
            epoch: Some(self.last),
            prev: self.head.epoch,
            positions: self.plan.reached(&self.head.positions),
            parts: self.head.parts.clone(),
            closed: self.head.closed,
            replaces: self.head.replaces.clone(),
            ..Manifest::default()
        };
        for (worker, reply) in answers {
            let Some(reply::Kind::Snapshot(snapshot)) = reply.kind else {
                return Err(unexpected(&worker, reply));
            };
            advance(&mut manifest.positions, &snapshot.positions);
            manifest.deltas.extend(snapshot.delta);
            manifest.rows += snapshot.rows;
            manifest.bytes += snapshot.bytes;
        }
        Ok(manifest)
    }

    /// Takes the plan of the manifest's parts, gives each shard a position, and says
    /// whether the chain ends with it.
    pub(super) fn complete(&mut self, manifest: &mut Manifest) -> Result<(), Turn> {
        let plan = self.input.plan(&manifest.parts);
        self.plan = plan.map_err(|error| Turn::Failed(error.to_string()))?;
        manifest.positions = self.plan.reached(&manifest.positions);
        let is_whole = manifest.closed || !self.input.may_grow();
        let counted = self.plan.counted(&manifest.positions);
        manifest.last = is_whole && counted == self.plan.total_bytes();
        Ok(())
    }

    /// Begins to remove the files of lost barriers, after the first commit that follows
    /// them; the next barrier does not wait for it.
    fn clean(&mut self) {
        self.recoveries_since_commit = 0;
        while self.cleaning.try_join_next().is_some() {}
        // One at a time: what it misses is for the next.
        if !self.cleaning.is_empty() || !std::mem::take(&mut self.has_leftovers) {
            return;
        }
        let (ledger, guard) = (Arc::clone(&self.meta.ledger), self.guard.clone());
        let (journal, roster) = (self.meta.journal.clone(), self.roster.borrow().clone());
        self.cleaning.spawn(async move {
            if let Err(error) = ledger.clean(&guard, &roster).await {
                journal.hindered(&format!("old files stay: {error}"));
            }
        });
    }

    /// Removes the rest at the end of the chain: no later commit does.
    pub(super) async fn clean_up(&mut self) {
        while self.cleaning.join_next().await.is_some() {}
        self.clean();
        while self.cleaning.join_next().await.is_some() {}
    }
}
