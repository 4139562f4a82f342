//! The killed leader, kept running on purpose.
//!
//! It knows nothing of its successor. After the successor's first commit it tries
//! to commit an epoch of its own, through the function that every leader uses.

use std::time::Duration;

use fencing::Guard;
use leader_election::Leadership;
use tokio::sync::watch;

use crate::journal::Journal;
use crate::meta::{Holder, commit};
use crate::status::Status;
use crate::store::Store;
use crate::wire::{Epoch, Manifest};

/// How often it looks at the store where nobody tells it anything.
const LOOK_EVERY: Duration = Duration::from_millis(100);

/// What is left of a killed leader.
pub(super) struct Ghost {
    /// Kept as it was: a process that was killed resigns nothing.
    pub(super) leadership: Leadership,
    pub(super) guard: Guard,
    pub(super) store: Store,
    pub(super) journal: Journal,
    /// The chain's head when it was killed.
    pub(super) head: Manifest,
}

impl Ghost {
    /// Waits for the successor's first commit, tries to commit, and returns
    /// whether it was refused.
    ///
    /// Where the chain had ended with its own last commit there is no successor's
    /// commit, and nothing to try.
    pub(super) async fn haunt(self, mut status: watch::Receiver<Status>) -> bool {
        let token = self.leadership.token();
        loop {
            let head = self.store.head();
            if head.id().term > token {
                break;
            }
            // A commit that was under way at its death may land without any news.
            let news = tokio::time::timeout(LOOK_EVERY, status.changed()).await;
            if head.last || matches!(news, Ok(Err(_))) {
                return true;
            }
        }
        let manifest = Manifest {
            epoch: Some(Epoch::new(token, self.head.id().n + 1_000_000)),
            prev: self.head.epoch,
            positions: self.head.positions.clone(),
            ..Manifest::default()
        };
        let holder = Holder::Guarded(&self.guard);
        let outcome = commit(holder, &self.store, token, &manifest).await;
        let is_refused = outcome.is_err();
        let said = match outcome {
            Ok(()) => "and was NOT refused".to_owned(),
            Err(refused) => refused.to_string(),
        };
        self.journal.late_commit(format!(
            "the killed leader (token {token}) tried to commit after its successor: {said}"
        ));
        is_refused
    }
}
