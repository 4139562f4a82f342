//! Whether everything held: from etcd's history and the files, never from the word of a
//! process that took part.

use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;
use std::time::{Duration, SystemTime};

use super::fault::Limits;
use super::timeline::Timeline;
use crate::etcd::History;
use crate::store::clean::epoch_of;
use crate::wire::Epoch;

/// Commits in a minute, at the least.
pub const LEAST_COMMITS: u32 = 25;

/// One input that was asked for, and what the loop said.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Addition {
    /// What was to be added.
    pub path: PathBuf,
    /// What became of it, as far as it was told.
    pub told: Told,
}

/// What a user was told of a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Told {
    /// It is served, durably.
    Served,
    /// It is not served and never will be.
    NotServed,
    /// Nothing for certain.
    Nothing,
}

/// What a judge looks at.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Evidence<'a> {
    /// Every commit, from etcd.
    pub history: &'a History,
    /// Each snapshot that was ever seen in the folder, and when it was written.
    pub files: &'a BTreeMap<String, SystemTime>,
    /// What was asked for.
    pub additions: &'a [Addition],
    /// What went wrong on purpose.
    pub timeline: &'a Timeline,
    /// How soon commits must go on.
    pub limits: Limits,
    /// Length of the run.
    pub length: Duration,
}

// ===== impl Evidence =====

impl<'a> Evidence<'a> {
    /// Collects what there is.
    #[must_use]
    pub fn new(
        history: &'a History,
        files: &'a BTreeMap<String, SystemTime>,
        additions: &'a [Addition],
        timeline: &'a Timeline,
        limits: Limits,
        length: Duration,
    ) -> Self {
        Self {
            history,
            files,
            additions,
            timeline,
            limits,
            length,
        }
    }

    /// Returns what should never have happened, in words; nothing where everything held.
    #[must_use]
    pub fn violations(&self) -> Vec<String> {
        let mut found = self.history.violations.clone();
        self.missing_answers(&mut found);
        self.late_snapshots(&mut found);
        self.additions(&mut found);
        self.standstill(&mut found);
        found
    }

    /// A committed epoch names the snapshot of every worker that made one at its barrier,
    /// and no other.
    fn missing_answers(&self, found: &mut Vec<String>) {
        let mut made: BTreeMap<(u64, u64), BTreeSet<&str>> = BTreeMap::new();
        for name in self.files.keys() {
            if let Some(epoch) = epoch_of(name) {
                made.entry(epoch.order()).or_default().insert(name);
            }
        }
        for commit in &self.history.commits {
            let epoch = commit.manifest.id();
            let deltas = commit.manifest.deltas.iter();
            let named: BTreeSet<&str> = deltas.map(|delta| delta.name.as_str()).collect();
            let made = made.remove(&epoch.order()).unwrap_or_default();
            for name in made.difference(&named) {
                found.push(format!("epoch {epoch} was committed without {name}"));
            }
            for name in named.difference(&made) {
                found.push(format!(
                    "epoch {epoch} names {name}, which nobody has written"
                ));
            }
        }
    }

    /// No worker writes for a term after it has written for a later one.
    fn late_snapshots(&self, found: &mut Vec<String>) {
        let mut newest: BTreeMap<&str, (Epoch, SystemTime)> = BTreeMap::new();
        let mut files: Vec<(&str, Epoch, SystemTime)> = Vec::new();
        for (name, written) in self.files {
            let worker = name.splitn(3, '-').nth(2);
            if let (Some(worker), Some(epoch)) = (worker, epoch_of(name)) {
                files.push((worker, epoch, *written));
            }
        }
        files.sort_by_key(|(_, epoch, _)| epoch.order());
        for (worker, epoch, written) in files {
            if let Some((before, at)) = newest.get(worker)
                && *at > written
            {
                found.push(format!(
                    "{worker} wrote for {before} after it had for {epoch}"
                ));
            } else {
                newest.insert(worker, (epoch, written));
            }
        }
    }

    /// What was asked for is in the chain once where it was served, and else not at all.
    fn additions(&self, found: &mut Vec<String>) {
        for addition in self.additions {
            let name = addition.path.display().to_string();
            let applied = self
                .history
                .commits
                .iter()
                .flat_map(|c| &c.manifest.applied);
            let times = applied.filter(|a| says_of(&a.says, &name)).count();
            let is_right = match addition.told {
                Told::Served => times == 1,
                Told::NotServed => times == 0,
                Told::Nothing => times <= 1,
            };
            if !is_right {
                let told = addition.told;
                found.push(format!(
                    "{name} was added {times} times, and told: {told:?}"
                ));
            }
        }
    }

    /// Commits go on after each fault, and there are enough of them.
    fn standstill(&self, found: &mut Vec<String>) {
        for record in self.timeline.records() {
            let bound = record.kind.bound(&self.limits);
            match record.pause() {
                Some(pause) if pause <= bound => {}
                Some(pause) => found.push(format!(
                    "the next commit came {pause:.2?} after {} of {}, not within {bound:?}",
                    record.kind, record.target
                )),
                None => found.push(format!(
                    "no commit came after {} of {}",
                    record.kind, record.target
                )),
            }
        }
        let least = self.length.as_secs_f64() / 60.0 * f64::from(LEAST_COMMITS);
        let commits = self.history.commits.len();
        if (commits as f64) < least {
            found.push(format!("{commits} commits only in {:.0?}", self.length));
        }
    }
}

fn says_of(says: &str, path: &str) -> bool {
    says.strip_prefix(path)
        .is_some_and(|rest| rest.starts_with(':'))
}

#[cfg(test)]
mod tests;
