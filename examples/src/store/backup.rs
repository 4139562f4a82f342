//! What a loop needs when its store was rebuilt: the chain, kept beside the deltas.
//!
//! A leader of a store elsewhere keeps each manifest in `backup/` before it commits it.
//! There is a folder for each scope of tokens, and in it a file for each reign, named by
//! its token: first the chain as the reign found it, in one manifest that names all deltas,
//! then what the reign commits. So the file of the highest token holds all that was ever
//! committed in its scope. At its end it may hold one manifest whose commit did not land;
//! all answers to that one were there, and nothing else was committed after its
//! predecessor, so it is as good as committed.

use std::fs::{self, File};
use std::io;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};

use prost::Message;

use super::chain::{PREFIX, encode, next_record};
use super::error::StoreError;
use super::output::{Output, sync_folder};
use crate::wire::{Delta, Manifest};

/// The backups of all scopes.
#[derive(Clone, Debug)]
pub struct Backup {
    folder: PathBuf,
}

/// What one reign writes.
#[derive(Debug)]
pub struct Pen {
    file: File,
    /// Length of the whole records, bytes.
    len: u64,
    last: Manifest,
}

/// The newest state of one scope.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Saved {
    /// The scope of the tokens under which it was written.
    pub scope: String,
    /// The last manifest; the default one where nothing was committed.
    pub head: Manifest,
    /// Every delta of the chain.
    pub deltas: Vec<Delta>,
}

// ===== impl Backup =====

impl Backup {
    /// Names the backups of an output folder.
    #[must_use]
    pub fn of(output: &Output) -> Self {
        Self {
            folder: output.folder().join("backup"),
        }
    }

    /// Begins the file of a reign with the chain as it is, durably; what it replaces goes.
    ///
    /// # Errors
    ///
    /// [`StoreError::Io`].
    pub fn begin(
        &self,
        scope: &str,
        token: u64,
        head: &Manifest,
        deltas: Vec<Delta>,
    ) -> Result<Pen, StoreError> {
        let folder = self.folder.join(folder_of(scope));
        let name = format!("{token:020}");
        let begun = fs::create_dir_all(&folder).and_then(|()| {
            let mut pen = Pen {
                file: File::create(folder.join(&name))?,
                len: 0,
                last: Manifest::default(),
            };
            let whole = Manifest {
                deltas,
                ..head.clone()
            };
            pen.write(&whole)?;
            pen.last.clone_from(head);
            sync_folder(&folder)?;
            sync_folder(&self.folder)?;
            self.folder.parent().map_or(Ok(()), sync_folder)?;
            Ok(pen)
        });
        let pen = begun.map_err(|error| StoreError::Io(folder.clone(), error))?;
        // What stays is removed by the next reign.
        for older in files(&folder).into_iter().filter(|older| *older < name) {
            let _ = fs::remove_file(folder.join(older));
        }
        for replaced in &head.replaces {
            let _ = fs::remove_dir_all(self.folder.join(folder_of(replaced)));
        }
        Ok(pen)
    }

    /// Returns the newest state of each scope.
    ///
    /// # Errors
    ///
    /// [`StoreError`] where a file cannot be read or is damaged.
    pub fn read(&self) -> Result<Vec<Saved>, StoreError> {
        let mut all = Vec::new();
        for name in files(&self.folder) {
            all.extend(read_scope(&self.folder.join(&name), scope_of(&name))?);
        }
        Ok(all)
    }
}

// ===== impl Pen =====

impl Pen {
    /// Keeps a manifest, durably; one that is the last already is there.
    ///
    /// # Errors
    ///
    /// Those of the file system: the next one overwrites what may be there.
    pub fn keep(&mut self, manifest: &Manifest) -> io::Result<()> {
        if *manifest != self.last {
            self.write(manifest)?;
            self.last.clone_from(manifest);
        }
        Ok(())
    }

    fn write(&mut self, manifest: &Manifest) -> io::Result<()> {
        let record = encode(manifest);
        self.file.write_all_at(&record, self.len)?;
        self.file.set_len(self.len + record.len() as u64)?;
        self.file.sync_all()?;
        self.len += record.len() as u64;
        Ok(())
    }
}

fn read_scope(folder: &Path, scope: String) -> Result<Option<Saved>, StoreError> {
    let mut names = files(folder);
    names.sort();
    // One whose first record is cut was never led by.
    for name in names.iter().rev() {
        let path = folder.join(name);
        let bytes = match fs::read(&path) {
            Ok(bytes) => bytes,
            // A younger reign has begun: its file holds all of this.
            Err(error) if error.kind() == io::ErrorKind::NotFound => continue,
            Err(error) => return Err(StoreError::Io(path, error)),
        };
        if let Some(saved) = read_reign(&bytes, &scope, &path)? {
            return Ok(Some(saved));
        }
    }
    Ok(None)
}

fn read_reign(bytes: &[u8], scope: &str, path: &Path) -> Result<Option<Saved>, StoreError> {
    let mut saved: Option<Saved> = None;
    let mut at = 0;
    while let Some(record) =
        next_record(&bytes[at..], at as u64).map_err(|_| StoreError::Backup(path.to_owned()))?
    {
        let manifest = Manifest::decode(&record[PREFIX..]);
        let manifest = manifest.map_err(|_| StoreError::Backup(path.to_owned()))?;
        at += record.len();
        let deltas = manifest.deltas.clone();
        match &mut saved {
            None => {
                saved = Some(Saved {
                    scope: scope.to_owned(),
                    head: manifest,
                    deltas,
                });
            }
            Some(saved) => saved.follow(manifest, deltas),
        }
    }
    Ok(saved)
}

// ===== impl Saved =====

impl Saved {
    /// Takes the next manifest. One of the same epoch as the last replaces it: the
    /// first was refused for what it answered.
    fn follow(&mut self, manifest: Manifest, deltas: Vec<Delta>) {
        if manifest.id() == self.head.id() {
            let kept = self.deltas.len() - self.head.deltas.len();
            self.deltas.truncate(kept);
        }
        self.deltas.extend(deltas);
        self.head = manifest;
    }

    /// Says whether a chain that ends with `head` lacks something that was committed.
    #[must_use]
    pub fn is_ahead_of(&self, head: &Manifest) -> bool {
        // The last one may not have landed.
        self.head.predecessor().order() > head.id().order()
    }
}

fn files(folder: &Path) -> Vec<String> {
    let entries = fs::read_dir(folder).into_iter().flatten().flatten();
    let names = entries.map(|entry| entry.file_name().into_string());
    names.filter_map(Result::ok).collect()
}

/// A scope may hold slashes.
fn folder_of(scope: &str) -> String {
    scope.replace('%', "%25").replace('/', "%2F")
}

fn scope_of(folder: &str) -> String {
    folder.replace("%2F", "/").replace("%25", "%")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::wire::Epoch;

    fn manifest(prev: Epoch, epoch: Epoch, delta: &str) -> Manifest {
        Manifest {
            epoch: Some(epoch),
            prev: Some(prev),
            deltas: vec![Delta {
                name: delta.to_owned(),
                ..Delta::default()
            }],
            ..Manifest::default()
        }
    }

    fn names(saved: &Saved) -> Vec<&str> {
        saved.deltas.iter().map(|delta| &*delta.name).collect()
    }

    fn open() -> (tempfile::TempDir, Backup) {
        let folder = tempfile::tempdir().unwrap();
        let backup = Backup::of(&Output::open_shared(folder.path()).unwrap());
        (folder, backup)
    }

    #[test]
    fn the_reign_of_the_highest_token_holds_all_and_takes_the_place_of_the_others() {
        let (_folder, backup) = open();
        assert!(backup.read().unwrap().is_empty());
        let (scope, start) = ("life%/words/leader", Manifest::default());
        let mut pen = backup.begin(scope, 5, &start, Vec::new()).unwrap();
        let one = manifest(Epoch::START, Epoch::new(5, 2), "a");
        pen.keep(&one).unwrap();
        pen.keep(&one).unwrap();
        // A commit that answers a request which was withdrawn is made again without it.
        let two = manifest(one.id(), Epoch::new(5, 3), "b");
        let without = Manifest {
            closed: true,
            ..two.clone()
        };
        pen.keep(&two).unwrap();
        pen.keep(&without).unwrap();
        let saved = backup.read().unwrap();
        assert_eq!(saved[0].scope, scope);
        assert_eq!(
            (names(&saved[0]), &saved[0].head),
            (vec!["a", "b"], &without)
        );

        // Its last one did not land: the next reign begins with what did.
        let base = backup.begin(scope, 11, &one, one.deltas.clone());
        let mut pen = base.unwrap();
        let three = manifest(one.id(), Epoch::new(11, 1), "c");
        pen.keep(&three).unwrap();
        let saved = backup.read().unwrap();
        assert_eq!((names(&saved[0]), &saved[0].head), (vec!["a", "c"], &three));
        assert!(!saved[0].is_ahead_of(&one) && saved[0].is_ahead_of(&start));
        assert_eq!(files(&backup.folder.join(folder_of(scope))).len(), 1);
    }

    #[test]
    fn a_cut_at_any_byte_loses_the_last_manifest_only_and_damage_is_an_error() {
        let (_folder, backup) = open();
        let one = manifest(Epoch::START, Epoch::new(5, 2), "a");
        drop(backup.begin("s", 5, &one, one.deltas.clone()).unwrap());
        let mut pen = backup.begin("s", 9, &one, one.deltas.clone()).unwrap();
        let begun = pen.len;
        let two = manifest(one.id(), Epoch::new(9, 1), "b");
        pen.keep(&two).unwrap();
        let path = backup.folder.join("s").join(format!("{:020}", 9));
        let bytes = fs::read(&path).unwrap();
        for len in begun..bytes.len() as u64 {
            fs::write(&path, &bytes[..len as usize]).unwrap();
            assert_eq!(backup.read().unwrap()[0].head, one, "cut at {len}");
        }
        // Cut before it was begun: nobody led by it.
        fs::write(&path, &bytes[..begun as usize - 1]).unwrap();
        assert!(backup.read().unwrap().is_empty());
        let mut damaged = bytes.clone();
        damaged[20] ^= 1;
        fs::write(&path, damaged).unwrap();
        let error = backup.read().unwrap_err().to_string();
        assert!(error.contains("is damaged"), "{error}");
    }
}
