//! The files of a run: deltas, parts of the input, totals.

use std::fs::{self, File};
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use prost::Message;
use prost::bytes::Bytes;

use super::clean::SCRATCH;
use super::error::StoreError;
use crate::wire::{Delta, Part, Plan};

/// What processes that share an output folder make in it; anything else is foreign.
const SHARED: [&str; 9] = [
    "deltas",
    "parts",
    "fences",
    "backup",
    "etcd",
    "logs",
    "counts.tsv",
    "counts.tsv.tmp",
    "counts.tsv.merge",
];

/// Where the files of a run lie; which of them count is for the chain to say.
///
/// One process may hold the folder, see [`Store`](super::Store), or several may share
/// it: each file has one writer, and none is named in the chain before it is durable.
#[derive(Clone, Debug)]
pub struct Output {
    folder: Arc<Path>,
}

// ===== impl Output =====

impl Output {
    pub(super) fn new(folder: &Path) -> Self {
        Self {
            folder: folder.into(),
        }
    }

    /// Opens a folder, or makes it, for several processes at once.
    ///
    /// # Errors
    ///
    /// [`StoreError`] where it cannot be used or holds something else.
    pub fn open_shared(folder: &Path) -> Result<Self, StoreError> {
        let named = |error| StoreError::Io(folder.to_owned(), error);
        fs::create_dir_all(folder).map_err(named)?;
        let folder = &folder.canonicalize().map_err(named)?;
        for entry in fs::read_dir(folder).map_err(named)? {
            let name = entry.map_err(named)?.file_name();
            let text = name.to_string_lossy();
            if !SHARED.contains(&&*text) {
                return Err(StoreError::Foreign(folder.clone(), text.into_owned()));
            }
        }
        for name in ["deltas", "parts", "fences"] {
            fs::create_dir_all(folder.join(name)).map_err(named)?;
        }
        sync_folder(folder).map_err(named)?;
        Ok(Self::new(folder))
    }

    /// Returns the folder's path.
    #[must_use]
    pub fn folder(&self) -> &Path {
        &self.folder
    }

    /// Says whether the folder is still there; without it no retry can help.
    #[must_use]
    pub fn is_present(&self) -> bool {
        self.deltas().is_dir()
    }

    /// Returns the folder of the deltas.
    #[must_use]
    pub fn deltas(&self) -> PathBuf {
        self.folder.join("deltas")
    }

    /// Returns where a delta of this name lies, or `None` for a name that is none.
    #[must_use]
    pub fn delta_path(&self, name: &str) -> Option<PathBuf> {
        is_plain(name).then(|| self.deltas().join(name))
    }

    /// Returns where a worker keeps the mark of its fence.
    #[must_use]
    pub fn fence_path(&self, worker: &str) -> Option<PathBuf> {
        let name = format!("{worker}.mark");
        // The name of a delta that is being written, of another worker.
        let is_scratch = worker.ends_with(SCRATCH);
        (is_plain(&name) && !is_scratch).then(|| self.folder.join("fences").join(name))
    }

    /// Checks that each of these deltas is there in its full length.
    ///
    /// # Errors
    ///
    /// [`StoreError::Delta`] with the first that is not.
    pub fn check(&self, deltas: &[Delta]) -> Result<(), StoreError> {
        for delta in deltas {
            let path = self.deltas().join(&delta.name);
            if !fs::metadata(&path).is_ok_and(|meta| meta.len() == delta.file_bytes) {
                return Err(StoreError::Delta(path));
            }
        }
        Ok(())
    }

    /// Stores a part of the input, durably, under a name that is new.
    ///
    /// # Errors
    ///
    /// [`StoreError::Io`].
    pub fn write_part(&self, name: &str, plan: &Plan) -> Result<Part, StoreError> {
        let crc32 = write_plan(&self.part_path(name), plan)?;
        Ok(Part {
            name: name.to_owned(),
            crc32,
        })
    }

    /// Reads a part of the input.
    ///
    /// # Errors
    ///
    /// [`StoreError::Plan`] where it is missing, damaged or another, [`StoreError::Io`].
    pub fn read_part(&self, part: &Part) -> Result<Plan, StoreError> {
        let path = self.part_path(&part.name);
        match read_plan(&path)? {
            Some((plan, crc32)) if crc32 == part.crc32 => Ok(plan),
            _ => Err(StoreError::Plan(path)),
        }
    }

    /// Removes a part that no chain will name.
    pub fn remove_part(&self, name: &str) {
        // What stays is removed with the next clean-up.
        let _ = fs::remove_file(self.part_path(name));
    }

    /// Returns the folder of the parts.
    #[must_use]
    pub fn parts(&self) -> PathBuf {
        self.folder.join("parts")
    }

    fn part_path(&self, name: &str) -> PathBuf {
        self.parts().join(name)
    }

    /// Writes `counts.tsv` anew: whole, or not at all.
    ///
    /// # Errors
    ///
    /// Those of `write` and of the file system.
    pub fn write_counts(
        &self,
        write: impl FnOnce(&mut io::BufWriter<&mut File>) -> io::Result<()>,
    ) -> io::Result<()> {
        replace(&self.folder.join("counts.tsv"), |file| {
            let mut buffered = io::BufWriter::new(file);
            write(&mut buffered)?;
            buffered.flush()
        })
    }
}

fn is_plain(name: &str) -> bool {
    !name.is_empty() && !name.contains(['/', '\0']) && !name.starts_with('.')
}

/// Stores a plan durably and returns its checksum.
pub(super) fn write_plan(path: &Path, plan: &Plan) -> Result<u32, StoreError> {
    let bytes = plan.encode_to_vec();
    let crc = crc32fast::hash(&bytes);
    let written = replace(path, |file| {
        file.write_all(&bytes)?;
        file.write_all(&crc.to_le_bytes())
    });
    written.map_err(|error| StoreError::Io(path.to_owned(), error))?;
    Ok(crc)
}

/// Reads a stored plan and its checksum; `None` where there is no file.
pub(super) fn read_plan(path: &Path) -> Result<Option<(Plan, u32)>, StoreError> {
    let bytes = match fs::read(path) {
        Ok(bytes) => Bytes::from(bytes),
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        Err(error) => return Err(StoreError::Io(path.to_owned(), error)),
    };
    let crc = bytes.last_chunk::<4>().map(|crc| u32::from_le_bytes(*crc));
    let body = bytes.slice(..bytes.len().saturating_sub(4));
    match (Plan::decode(body.clone()), crc) {
        (Ok(plan), Some(crc)) if crc == crc32fast::hash(&body) => Ok(Some((plan, crc))),
        _ => Err(StoreError::Plan(path.to_owned())),
    }
}

/// Replaces a file durably: a crash leaves the old one or the new one.
fn replace(path: &Path, write: impl FnOnce(&mut File) -> io::Result<()>) -> io::Result<()> {
    let mut scratch = path.as_os_str().to_owned();
    scratch.push(".tmp");
    let written = File::create(&scratch).and_then(|mut file| {
        write(&mut file)?;
        file.sync_all()?;
        fs::rename(&scratch, path)
    });
    if written.is_err() {
        let _ = fs::remove_file(&scratch);
    }
    written?;
    path.parent().map_or(Ok(()), sync_folder)
}

/// Makes the names in a folder durable.
pub(crate) fn sync_folder(folder: &Path) -> io::Result<()> {
    File::open(folder)?.sync_all()
}
