//! Removes the files of barriers that were never committed.

use std::collections::BTreeSet;
use std::fs;
use std::io;
use std::path::Path;

use super::folder::Store;
use super::output::Output;
use crate::wire::{Epoch, Manifest};

impl Store {
    /// Removes each file of an epoch up to the head that the chain does not reference.
    ///
    /// # Errors
    ///
    /// Those of the file system; what was removed stays removed.
    pub fn remove_unreferenced(&self) -> io::Result<usize> {
        let snapshot = self.snapshot();
        let deltas = snapshot.deltas.iter().map(|delta| delta.name.as_str());
        self.output()
            .remove_unreferenced(&deltas.collect(), &snapshot.head)
    }
}

impl Output {
    /// Removes each delta of an epoch up to the head that is not among `deltas`, all
    /// that the chain references, and each part of an older term that the head does
    /// not name.
    ///
    /// Call it only after a commit has landed: an unreferenced file up to the head
    /// can then never be committed, since a commit names the head as its
    /// predecessor. Files above the head are left alone; a barrier that is still
    /// under way may own them. Returns how many were removed.
    ///
    /// # Errors
    ///
    /// Those of the file system; what was removed stays removed.
    pub fn remove_unreferenced(
        &self,
        deltas: &BTreeSet<&str>,
        head: &Manifest,
    ) -> io::Result<usize> {
        let at = head.id();
        let removed = remove(&self.deltas(), |name| {
            let is_past = epoch_of(name).is_some_and(|e| e.order() <= at.order());
            is_past && !deltas.contains(name)
        })?;
        // The present leader's own may still be named.
        let is_left = |name: &str| {
            let is_past = epoch_of(name).is_some_and(|e| e.term < at.term);
            is_past && head.parts.iter().all(|part| part.name != name)
        };
        match remove(&self.parts(), is_left) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(removed),
            parts => parts.map(|parts| parts + removed),
        }
    }
}

fn remove(folder: &Path, is_left: impl Fn(&str) -> bool) -> io::Result<usize> {
    let mut removed = 0;
    for entry in fs::read_dir(folder)? {
        let entry = entry?;
        if entry.file_name().to_str().is_some_and(&is_left) {
            fs::remove_file(entry.path())?;
            removed += 1;
        }
    }
    Ok(removed)
}

/// Returns the name of the delta that `worker` writes at the barrier of `epoch`.
#[must_use]
pub(crate) fn delta_name(epoch: Epoch, worker: &str) -> String {
    format!("{}-{}-{worker}", epoch.term, epoch.n)
}

/// Returns the name of the part of the input that a leader makes as its `n`th.
#[must_use]
pub(crate) fn part_name(term: u64, n: u64) -> String {
    format!("{term}-{n}-part")
}

/// Returns the epoch of a delta, or whose leader made a part.
#[must_use]
pub(crate) fn epoch_of(name: &str) -> Option<Epoch> {
    let mut parts = name.splitn(3, '-');
    let term = parts.next()?.parse().ok()?;
    let n = parts.next()?.parse().ok()?;
    parts.next().map(|_| Epoch::new(term, n))
}
