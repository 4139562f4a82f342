//! The commit at the resource: here a token is checked, whoever calls.

use std::fmt;
use std::io;
use std::sync::atomic::Ordering::Relaxed;

use super::chain::{AppendError, Appended};
use super::folder::Store;
use crate::wire::{Epoch, Manifest};

/// Why the store did not commit.
#[derive(Debug)]
#[non_exhaustive]
pub enum CommitError {
    /// A higher token was admitted: the caller leads no longer.
    Stale {
        /// The highest token that the store has seen.
        highest: u64,
    },
    /// The leadership was given to another.
    Deposed,
    /// The fence refuses for now, or cannot store its mark.
    Fence(fencing::AdmitError),
    /// The manifest does not follow the chain's head.
    Fork {
        /// The chain's head.
        head: Epoch,
    },
    /// The manifest's term is not the token that it came with.
    WrongTerm,
    /// A request that the manifest answers was withdrawn: commit without it.
    Withdrawn,
    /// What was committed cannot be used: no retry can help.
    Broken(String),
    /// The store holds less than was committed: it goes on once that is restored.
    Behind(String),
    /// It may have landed or not: repeat the identical commit until this is settled.
    Unknown(io::Error),
}

impl fmt::Display for CommitError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Stale { highest } => write!(f, "the store has admitted token {highest}"),
            Self::Deposed => f.write_str("the leadership was given to another"),
            Self::Fence(error) => write!(f, "{error}"),
            Self::Fork { head } => write!(f, "the chain's head is {head}"),
            Self::WrongTerm => f.write_str("the manifest is of another term than its token"),
            Self::Withdrawn => f.write_str("a request that it answers was withdrawn"),
            Self::Broken(why) | Self::Behind(why) => f.write_str(why),
            Self::Unknown(error) => write!(f, "the outcome is unknown: {error}"),
        }
    }
}

impl std::error::Error for CommitError {}

impl Store {
    /// Raises the mark to `token`, durably: every lower token is refused from here on.
    ///
    /// A leader calls it before it hands out work, so that no term is used twice.
    ///
    /// # Errors
    ///
    /// [`CommitError::Stale`] and [`CommitError::Fence`].
    ///
    /// # Cancel safety
    ///
    /// Cancel safe; a raise that has begun goes on.
    pub async fn admit_leader(&self, token: u64) -> Result<(), CommitError> {
        drop(self.fence.admit(token).await.map_err(refused)?);
        Ok(())
    }

    /// Commits one epoch: durable when this returns `Ok`; repeating it is harmless.
    ///
    /// # Errors
    ///
    /// [`CommitError`]; only after [`CommitError::Unknown`] may it have landed.
    ///
    /// # Cancel safety
    ///
    /// A dropped commit may still land; its outcome is unknown until the chain is read.
    pub async fn commit(&self, token: u64, manifest: &Manifest) -> Result<Appended, CommitError> {
        if manifest.id().term != token {
            return Err(CommitError::WrongTerm);
        }
        let admission = self.fence.admit(token).await.map_err(refused)?;
        let (store, manifest) = (self.clone(), manifest.clone());
        let append = tokio::task::spawn_blocking(move || {
            let appended = store.chain().append(&manifest);
            // Held until the effect is in place: a successor's admission waits for it.
            drop(admission);
            appended
        });
        let appended = append
            .await
            .map_err(|error| CommitError::Unknown(io::Error::other(error)))?;
        if self.reply_is_lost() {
            return Err(CommitError::Unknown(io::ErrorKind::TimedOut.into()));
        }
        appended.map_err(|error| match error {
            AppendError::Fork { head } => CommitError::Fork { head },
            AppendError::Unknown(error) => CommitError::Unknown(error),
        })
    }

    /// Makes the next `replies` commits report an unknown outcome, whatever it was.
    ///
    /// A fault for tests: the commit is carried out, only its reply is lost.
    pub fn lose_replies(&self, replies: u32) {
        self.lost_replies.store(replies, Relaxed);
    }

    fn reply_is_lost(&self) -> bool {
        let fewer = |left: u32| left.checked_sub(1);
        self.lost_replies
            .fetch_update(Relaxed, Relaxed, fewer)
            .is_ok()
    }
}

fn refused(error: fencing::AdmitError) -> CommitError {
    match error {
        fencing::AdmitError::Stale(stale) => CommitError::Stale {
            highest: stale.highest,
        },
        other => CommitError::Fence(other),
    }
}
