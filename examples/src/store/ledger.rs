//! What a leader needs of wherever epochs are committed.

use std::io;

use fencing::Guard;
use leader_election::Leadership;
use tonic::async_trait;

use super::commit::CommitError;
use super::folder::Store;
use super::output::Output;
use crate::roster::Roster;
use crate::wire::Manifest;

/// Where epochs are committed: the chain's one writer is whoever leads.
#[async_trait]
pub trait Ledger: Send + Sync + 'static {
    /// Begins a reign: from here on no lower token can commit. Returns the chain's head;
    /// the default manifest before the first commit.
    ///
    /// # Errors
    ///
    /// [`CommitError`]; call it again unless it says that the leadership is over.
    async fn begin(&self, leadership: &Leadership) -> Result<Manifest, CommitError>;

    /// Commits one epoch: durable when this returns `Ok`; repeating it is harmless.
    ///
    /// # Errors
    ///
    /// [`CommitError`]; only after [`CommitError::Unknown`] may it have landed.
    ///
    /// # Cancel safety
    ///
    /// A dropped commit may still land; its outcome is unknown until the chain is read.
    async fn commit(&self, token: u64, manifest: &Manifest) -> Result<(), CommitError>;

    /// Removes files up to the head that the chain does not name, after a commit has
    /// landed; returns how many. Nothing is removed once `guard` allows nothing more.
    ///
    /// Who keeps files of his own is asked to remove them, if he is in the roster.
    ///
    /// # Errors
    ///
    /// The first one; what was removed stays removed.
    ///
    /// # Cancel safety
    ///
    /// Cancel safe; what has begun goes on, under a permit of the guard.
    async fn clean(&self, guard: &Guard, roster: &Roster) -> io::Result<usize>;

    /// Returns where the files lie that a manifest names.
    fn output(&self) -> &Output;
}

#[async_trait]
impl Ledger for Store {
    async fn begin(&self, leadership: &Leadership) -> Result<Manifest, CommitError> {
        self.admit_leader(leadership.token()).await?;
        Ok(self.head())
    }

    async fn commit(&self, token: u64, manifest: &Manifest) -> Result<(), CommitError> {
        Self::commit(self, token, manifest).await.map(drop)
    }

    async fn clean(&self, guard: &Guard, _roster: &Roster) -> io::Result<usize> {
        let store = self.clone();
        let permit = guard.permit().map_err(io::Error::other)?;
        let removing = tokio::task::spawn_blocking(move || {
            let removed = store.remove_unreferenced();
            drop(permit);
            removed
        });
        removing.await.map_err(io::Error::other)?
    }

    fn output(&self) -> &Output {
        Self::output(self)
    }
}
