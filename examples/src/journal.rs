//! What the end report needs, kept while the loop runs.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use bidi_session::Counters;

use crate::wire::Epoch;

/// Notes that are kept, at the most; later ones are only counted.
const MAX_NOTES: usize = 200;

/// A journal; clones write to the same one.
#[derive(Clone, Debug, Default)]
pub struct Journal {
    entries: Arc<Mutex<Entries>>,
}

/// What a journal holds.
#[derive(Clone, Debug, Default)]
#[non_exhaustive]
pub struct Entries {
    /// From injection to the durable commit, for each epoch.
    pub latencies: Vec<Duration>,
    /// Recoveries and losses, in order, each with its cause.
    pub recoveries: Vec<String>,
    /// Recoveries and losses in all.
    pub recovered: u64,
    /// What went wrong and was tried again.
    pub hindrances: Vec<String>,
    /// Who led: token and name.
    pub leaders: Vec<(u64, String)>,
    /// What was killed on request.
    pub kills: Vec<String>,
    /// What became of the commits that killed leaders tried.
    pub late_commits: Vec<String>,
    /// Answers that the pools dropped, by kind.
    pub dropped: Counters,
    /// Answers whose epoch is of an older term.
    pub older_term: u64,
    /// Answers whose epoch is of a term that is not older, or of none.
    pub not_asked: u64,
}

impl Journal {
    /// Returns what was written so far.
    #[must_use]
    pub fn entries(&self) -> Entries {
        self.lock().clone()
    }

    /// Notes that an epoch was committed.
    pub fn committed(&self, latency: Duration) {
        self.lock().latencies.push(latency);
    }

    /// Notes that a leader began to lead.
    pub fn leads(&self, token: u64, name: &str) {
        let mut entries = self.lock();
        if entries.leaders.len() < MAX_NOTES {
            entries.leaders.push((token, name.to_owned()));
        }
    }

    /// Notes that a leader went back to the epoch `base`.
    pub fn recovered(&self, token: u64, base: Epoch, cause: &str) {
        tracing::info!(token, %base, cause, "recovering");
        self.recovery(format!("back to epoch {base} under token {token}: {cause}"));
    }

    /// Notes that a leader leads no longer.
    pub fn lost(&self, token: u64, why: &str) {
        tracing::warn!(token, why, "leadership lost");
        self.recovery(format!("the leader with token {token} is gone: {why}"));
    }

    /// Notes what went wrong and is tried again.
    pub fn hindered(&self, why: &str) {
        tracing::warn!(why, "tried again");
        let mut entries = self.lock();
        if entries.hindrances.len() < MAX_NOTES {
            entries.hindrances.push(why.to_owned());
        }
    }

    /// Notes what became of a killed leader's commit.
    pub fn late_commit(&self, what: String) {
        tracing::info!(what, "late commit");
        self.lock().late_commits.push(what);
    }

    /// Notes a kill on request.
    pub fn killed(&self, what: String) {
        tracing::info!(what, "kill");
        self.lock().kills.push(what);
    }

    /// Counts an answer that belongs to no round of the present term: of an older
    /// one, or of none.
    pub fn stray(&self, is_of_older_term: bool) {
        let mut entries = self.lock();
        if is_of_older_term {
            entries.older_term += 1;
        } else {
            entries.not_asked += 1;
        }
    }

    /// Adds what one pool dropped.
    pub fn dropped(&self, counters: Counters) {
        self.lock().dropped += counters;
    }

    fn recovery(&self, note: String) {
        let mut entries = self.lock();
        entries.recovered += 1;
        if entries.recoveries.len() < MAX_NOTES {
            entries.recoveries.push(note);
        }
    }

    fn lock(&self) -> MutexGuard<'_, Entries> {
        self.entries.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
