//! The commit of an epoch: under the guard here, under the token at the store.

use std::fmt;
use std::time::Duration;

use bidi_session::WorkerId;
use fencing::Guard;

use super::collect::unexpected;
use super::lead::{Reign, Turn};
use crate::input::advance;
use crate::status::Phase;
use crate::store::{CommitError, Store};
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
    store: &Store,
    token: u64,
    manifest: &Manifest,
) -> Result<(), Refused> {
    let permit = match holder {
        Holder::Guarded(guard) => Some(guard.permit().map_err(Refused::Guard)?),
        Holder::Unguarded => None,
    };
    let committed = store.commit(token, manifest).await.map_err(Refused::Store);
    drop(permit);
    committed.map(|_| ())
}

impl Reign<'_> {
    /// Makes the epoch durable; an unknown outcome is settled before anything else.
    pub(super) async fn commit_epoch(
        &mut self,
        answers: Vec<(WorkerId, Reply)>,
    ) -> Result<(), Turn> {
        self.show(Phase::Committing);
        let manifest = self.manifest(answers)?;
        let holder = Holder::Guarded(self.guard);
        while let Err(error) = commit(holder, &self.meta.store, self.token, &manifest).await {
            match error {
                Refused::Store(CommitError::Unknown(_) | CommitError::Fence(_)) => {
                    self.meta.hindered(&error.to_string());
                    tokio::time::sleep(REPEAT).await;
                }
                other => return Err(Turn::Lost(other.to_string())),
            }
        }
        let latency = self.injected_at.elapsed();
        let counted = self.meta.plan.counted(&manifest.positions);
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
        self.clean().await;
        self.meta.hooks.committed(counted).await;
        Ok(())
    }

    fn manifest(&self, answers: Vec<(WorkerId, Reply)>) -> Result<Manifest, Turn> {
        let plan = &self.meta.plan;
        let mut manifest = Manifest {
            epoch: Some(self.last),
            prev: self.head.epoch,
            positions: plan.reached(&self.head.positions),
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
        manifest.last = plan.counted(&manifest.positions) == plan.total_bytes();
        Ok(manifest)
    }

    /// Removes the files of lost barriers once, after the first commit that follows them.
    async fn clean(&mut self) {
        if std::mem::take(&mut self.recoveries_since_commit) == 0 {
            return;
        }
        let store = self.meta.store.clone();
        let cleaned = tokio::task::spawn_blocking(move || store.remove_unreferenced()).await;
        if let Ok(Err(error)) = cleaned {
            self.meta
                .journal
                .hindered(&format!("old files stay: {error}"));
        }
    }
}
