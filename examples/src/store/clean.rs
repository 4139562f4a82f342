//! Removes the files of barriers that were never committed.

use std::collections::BTreeSet;
use std::fs;
use std::io;

use super::folder::Store;
use crate::wire::Epoch;

impl Store {
    /// Removes each delta of an epoch up to the head that the chain does not reference.
    ///
    /// Call it only after a commit has landed: an unreferenced file up to the head
    /// can then never be committed, since a commit names the head as its
    /// predecessor. Files above the head are left alone; a barrier that is still
    /// under way may own them. Returns how many were removed.
    ///
    /// # Errors
    ///
    /// Those of the file system; what was removed stays removed.
    pub fn remove_unreferenced(&self) -> io::Result<usize> {
        let snapshot = self.snapshot();
        let kept: BTreeSet<&str> = snapshot.deltas.iter().map(|d| d.name.as_str()).collect();
        let mut removed = 0;
        for entry in fs::read_dir(self.deltas())? {
            let entry = entry?;
            let name = entry.file_name();
            let Some(name) = name.to_str() else { continue };
            let is_past = epoch_of(name).is_some_and(|e| e.order() <= snapshot.head.id().order());
            if is_past && !kept.contains(name) {
                fs::remove_file(entry.path())?;
                removed += 1;
            }
        }
        Ok(removed)
    }
}

/// Returns the name of the delta that `worker` writes at the barrier of `epoch`.
#[must_use]
pub(crate) fn delta_name(epoch: Epoch, worker: &str) -> String {
    format!("{}-{}-{worker}", epoch.term, epoch.n)
}

fn epoch_of(name: &str) -> Option<Epoch> {
    let mut parts = name.splitn(3, '-');
    let term = parts.next()?.parse().ok()?;
    let n = parts.next()?.parse().ok()?;
    parts.next().map(|_| Epoch::new(term, n))
}
