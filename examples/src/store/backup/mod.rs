//! What a loop needs when its store was rebuilt: the chain, kept beside the deltas.
//!
//! A leader of a store elsewhere keeps each manifest in `backup/` before it commits it.
//! There is a folder for each scope of tokens, and in it a file for each reign, named by
//! its token and the key that won it: first the chain as the reign found it, in one manifest
//! that names all deltas, then what the reign commits. So the file of the highest token
//! holds all that was ever committed in its scope. At its end it may hold one manifest whose
//! commit did not land; all answers to that one were there, and nothing else was committed
//! after its predecessor, so it is as good as committed. One that did land is followed by a
//! note of that, a manifest that names itself as its predecessor: so a store that has gone
//! back by a single commit is told from one that this commit did not reach. The note is
//! written without waiting for the disk; a host that loses power may lose it.

use std::fmt;
use std::fs::{self, File};
use std::io;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::str::FromStr;

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

/// A leadership, as the store gave it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Reign {
    /// The token.
    pub token: u64,
    /// What tells it from another of the same token, in a store that went backwards.
    pub key: String,
}

/// The newest state of one scope.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Saved {
    /// The scope of the tokens under which it was written.
    pub scope: String,
    /// The reign that wrote it.
    pub reign: Reign,
    /// The last manifest; the default one where nothing was committed.
    pub head: Manifest,
    /// The head was committed for certain.
    pub has_landed: bool,
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
        reign: &Reign,
        head: &Manifest,
        deltas: Vec<Delta>,
    ) -> Result<Pen, StoreError> {
        let folder = self.folder.join(folder_of(scope));
        let name = reign.to_string();
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
            pen.write(&whole, true)?;
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
            self.write(manifest, true)?;
            self.last.clone_from(manifest);
        }
        Ok(())
    }

    /// Notes that the manifest which was kept last is committed.
    ///
    /// # Errors
    ///
    /// Those of [`keep`](Self::keep); then nothing says so.
    pub fn landed(&mut self) -> io::Result<()> {
        let note = Manifest {
            epoch: self.last.epoch,
            prev: self.last.epoch,
            ..Manifest::default()
        };
        self.write(&note, false)
    }

    fn write(&mut self, manifest: &Manifest, is_synced: bool) -> io::Result<()> {
        let record = encode(manifest);
        self.file.write_all_at(&record, self.len)?;
        self.file.set_len(self.len + record.len() as u64)?;
        if is_synced {
            self.file.sync_all()?;
        }
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
        // What is named otherwise is none of ours.
        let Some(reign) = name.parse().ok() else {
            continue;
        };
        if let Some(saved) = read_reign(&bytes, &scope, reign, &path)? {
            return Ok(Some(saved));
        }
    }
    Ok(None)
}

fn read_reign(
    bytes: &[u8],
    scope: &str,
    reign: Reign,
    path: &Path,
) -> Result<Option<Saved>, StoreError> {
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
                    reign: reign.clone(),
                    head: manifest,
                    has_landed: true,
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
        self.has_landed = manifest.id() == manifest.predecessor();
        if self.has_landed {
            return;
        }
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
        let known = if self.has_landed {
            self.head.id()
        } else {
            self.head.predecessor()
        };
        known.order() > head.id().order()
    }

    /// Says whether the tokens of `scope` are, or once were, those of this chain.
    #[must_use]
    pub fn has_known(&self, scope: &str) -> bool {
        self.scope == scope || self.head.replaces.iter().any(|other| other == scope)
    }
}

// ===== impl Reign =====

impl Reign {
    /// Says whether this one was given although `other` had been, in the same scope.
    #[must_use]
    pub fn repeats(&self, other: &Self) -> bool {
        self.token < other.token || (self.token == other.token && self.key != other.key)
    }
}

impl fmt::Display for Reign {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:020}-{}", self.token, self.key)
    }
}

impl FromStr for Reign {
    type Err = ();

    fn from_str(text: &str) -> Result<Self, ()> {
        let (token, key) = text.split_once('-').ok_or(())?;
        Ok(Self {
            token: token.parse().map_err(|_| ())?,
            key: key.to_owned(),
        })
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
mod tests;
