//! A file that is replaced as a whole, behind the durable fence of this process.
//!
//! **Promise.** No entry of a lower token is written once a higher one was admitted, after
//! a crash too: a [`Fence`] makes the mark durable before it admits, and the admission is
//! held until the new file is in place. A new leader raises first and reads then; what it
//! has read is final.
//!
//! **Assumption.** One process serves the file: the fence is locked while it is open, so a
//! second process is refused. Others send their writes to it, with their token. A local
//! file system on which a rename is atomic. Mark and file are on the same disk and are
//! backed up together: a file whose mark is older than itself admits what it must not.
//!
//! **Unknown outcome.** An I/O error at the rename or behind it, or a crash: the new file
//! may be in place and its answer lost. Repeat the same [`append`](FencedFile::append):
//! the file holds the id, so that the entry is there once.

use std::fs::{self, File};
use std::io::{self, ErrorKind, Write};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};

use fencing::{AdmitError, Fence, OpenError, ResetError, Token};
use tokio::task::spawn_blocking;

use crate::write::{Entry, WriteError};

/// A file of entries and its fence, `<path>.mark`.
#[derive(Clone, Debug)]
pub struct FencedFile {
    path: Arc<Path>,
    fence: Fence,
    /// Reading and replacing is one step.
    step: Arc<Mutex<()>>,
}

// ===== impl FencedFile =====

impl FencedFile {
    /// Opens the file; a missing one has no entries.
    ///
    /// # Errors
    ///
    /// Those of [`Fence::open`].
    pub fn open(path: impl Into<PathBuf>) -> Result<Self, OpenError> {
        let path = path.into();
        let fence = Fence::open(beside(&path, ".mark"))?;
        let (path, step) = (path.into(), Arc::default());
        Ok(Self { path, fence, step })
    }

    /// Refuses lower tokens from here on, and writes nothing.
    ///
    /// # Errors
    ///
    /// Those of [`append`](Self::append).
    ///
    /// # Cancel safety
    ///
    /// Dropping the future leaves the outcome unknown.
    pub async fn raise(&self, token: &Token) -> Result<(), WriteError> {
        self.fence.admit(token).await.map(drop).map_err(refused)
    }

    /// Appends an entry, once for each `id`.
    ///
    /// # Errors
    ///
    /// See [`WriteError`].
    ///
    /// # Cancel safety
    ///
    /// Dropping the future leaves the outcome unknown.
    pub async fn append(&self, token: &Token, id: &str, value: &[u8]) -> Result<(), WriteError> {
        let admission = self.fence.admit(token).await.map_err(refused)?;
        let file = self.clone();
        let entry = Entry::new(token.clone(), id, value);
        let write = spawn_blocking(move || {
            let written = file.write(entry);
            // Held here, not by the future: that may be dropped while the write goes on.
            drop(admission);
            written
        });
        write
            .await
            .map_err(|error| WriteError::Unknown(error.into()))?
    }

    /// Forgets the mark and admits tokens of `scope`: the operator's step after the store
    /// of the tokens was rebuilt, once no holder of an older token is left. Blocks.
    ///
    /// # Errors
    ///
    /// See [`WriteError`].
    pub fn reset(&self, scope: &str) -> Result<(), WriteError> {
        self.fence.reset(scope).map_err(|error| match error {
            ResetError::Invalid(_) => WriteError::invalid("the scope has more than 128 bytes"),
            error => WriteError::Unknown(error.into()),
        })
    }

    /// Reads all entries, in the order in which they were written. Blocks.
    ///
    /// # Errors
    ///
    /// Those of the system, and [`ErrorKind::InvalidData`] for a file that is damaged.
    pub fn entries(&self) -> io::Result<Vec<Entry>> {
        match fs::read(&self.path) {
            Ok(bytes) => Entry::read_all(&bytes).ok_or_else(|| ErrorKind::InvalidData.into()),
            Err(error) if error.kind() == ErrorKind::NotFound => Ok(Vec::new()),
            Err(error) => Err(error),
        }
    }

    /// Reads, changes, and replaces.
    fn write(&self, entry: Entry) -> Result<(), WriteError> {
        let _step = self.step.lock().unwrap_or_else(PoisonError::into_inner);
        let mut entries = self.entries().map_err(failed)?;
        if let Some(found) = entries.iter().find(|found| found.id == entry.id) {
            // An earlier attempt may have ended between the rename and its sync.
            sync_folder(&self.path).map_err(unknown)?;
            return match found.value == entry.value {
                true => Ok(()),
                false => Err(WriteError::reused()),
            };
        }
        // Your effect here.
        entries.push(entry);
        let bytes: Vec<u8> = entries.iter().flat_map(Entry::to_bytes).collect();
        let temporary = beside(&self.path, ".tmp");
        let mut file = File::create(&temporary).map_err(failed)?;
        file.write_all(&bytes).map_err(failed)?;
        file.sync_all().map_err(failed)?;
        fs::rename(&temporary, &self.path).map_err(unknown)?;
        sync_folder(&self.path).map_err(unknown)
    }
}

fn beside(path: &Path, ending: &str) -> PathBuf {
    let mut name = path.as_os_str().to_owned();
    name.push(ending);
    name.into()
}

fn sync_folder(path: &Path) -> io::Result<()> {
    let folder = path.parent().filter(|folder| *folder != Path::new(""));
    File::open(folder.unwrap_or(Path::new(".")))?.sync_all()
}

fn refused(error: AdmitError) -> WriteError {
    match error {
        AdmitError::Stale(stale) => WriteError::Stale {
            token: stale.token,
            highest: stale.highest,
        },
        AdmitError::WrongScope(wrong) => WriteError::WrongScope {
            token: wrong.token,
            scope: wrong.scope,
        },
        AdmitError::Invalid(_) => {
            WriteError::invalid("the token is zero, or its scope has more than 128 bytes")
        }
        error => WriteError::Failed(error.into()),
    }
}

fn failed(error: io::Error) -> WriteError {
    WriteError::Failed(error.into())
}

fn unknown(error: io::Error) -> WriteError {
    WriteError::Unknown(error.into())
}
