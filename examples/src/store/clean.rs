//! Removes the files of barriers that were never committed.

use std::collections::BTreeSet;
use std::fs;
use std::io;
use std::path::Path;

use super::folder::Store;
use super::output::Output;
use crate::wire::{Epoch, Manifest};

/// Files of a run that no chain will name.
#[derive(Clone, Debug, Default)]
#[non_exhaustive]
pub struct Leftovers {
    /// Names of deltas.
    pub deltas: Vec<String>,
    /// Names of parts of the input.
    pub parts: Vec<String>,
}

impl Store {
    /// Removes each file of an epoch up to the head that the chain does not reference.
    ///
    /// # Errors
    ///
    /// Those of the file system; what was removed stays removed.
    pub fn remove_unreferenced(&self) -> io::Result<usize> {
        let snapshot = self.snapshot();
        let deltas = snapshot.deltas.iter().map(|delta| delta.name.as_str());
        let output = self.output();
        let left = output.leftovers(&deltas.collect(), &snapshot.head)?;
        let deltas = remove(&output.deltas(), &left.deltas)?;
        Ok(deltas + output.remove_parts(&left.parts)?)
    }
}

impl Output {
    /// Returns each delta of an epoch up to the head that is not among `deltas`, all
    /// that the chain references, and each part of an older term that the head does
    /// not name.
    ///
    /// Call it only after a commit has landed: an unreferenced file up to the head
    /// can then never be committed, since a commit names the head as its
    /// predecessor. Files above the head are left alone; a barrier that is still
    /// under way may own them.
    ///
    /// # Errors
    ///
    /// Those of the file system.
    pub fn leftovers(&self, deltas: &BTreeSet<&str>, head: &Manifest) -> io::Result<Leftovers> {
        let at = head.id();
        let is_past = |name: &str| epoch_of(name).is_some_and(|e| e.order() <= at.order());
        // The present leader's own may still be named.
        let is_older = |name: &str| epoch_of(name).is_some_and(|e| e.term < at.term);
        let is_named = |name: &str| head.parts.iter().any(|part| part.name == name);
        Ok(Leftovers {
            deltas: list(&self.deltas(), |name| {
                is_past(name) && !deltas.contains(name)
            })?,
            parts: match list(&self.parts(), |name| is_older(name) && !is_named(name)) {
                Err(error) if error.kind() == io::ErrorKind::NotFound => Vec::new(),
                parts => parts?,
            },
        })
    }

    /// Removes parts of the input; returns how many were there.
    ///
    /// # Errors
    ///
    /// Those of the file system; what was removed stays removed.
    pub fn remove_parts(&self, names: &[String]) -> io::Result<usize> {
        remove(&self.parts(), names)
    }
}

fn list(folder: &Path, is_left: impl Fn(&str) -> bool) -> io::Result<Vec<String>> {
    let mut names = Vec::new();
    for entry in fs::read_dir(folder)? {
        let name = entry?.file_name();
        names.extend(
            name.to_str()
                .filter(|name| is_left(name))
                .map(str::to_owned),
        );
    }
    Ok(names)
}

/// Removes files by name; one that is gone already is no error.
pub(crate) fn remove(folder: &Path, names: &[String]) -> io::Result<usize> {
    let mut removed = 0;
    for name in names {
        match fs::remove_file(folder.join(name)) {
            Ok(()) => removed += 1,
            Err(error) if error.kind() == io::ErrorKind::NotFound => {}
            Err(error) => return Err(error),
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

/// What the name of a delta ends with until it is whole.
pub(crate) const SCRATCH: &str = ".tmp";

/// Returns the worker that writes a delta of this name, or wrote a part of it; `None` for
/// a name that is none.
#[must_use]
pub(crate) fn writer_of(name: &str) -> Option<&str> {
    epoch_of(name)?;
    let writer = name.splitn(3, '-').nth(2)?;
    Some(writer.strip_suffix(SCRATCH).unwrap_or(writer))
}

/// Returns the epoch of a delta, or whose leader made a part.
#[must_use]
pub(crate) fn epoch_of(name: &str) -> Option<Epoch> {
    let mut parts = name.splitn(3, '-');
    let term = parts.next()?.parse().ok()?;
    let n = parts.next()?.parse().ok()?;
    parts.next().map(|_| Epoch::new(term, n))
}
