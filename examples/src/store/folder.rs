//! The folder itself: who holds it, and what is in it.

use std::fs::{self, File};
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::sync::atomic::AtomicU32;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use fencing::Fence;
use prost::Message;
use prost::bytes::Bytes;

use super::chain::Chain;
use super::error::StoreError;
use crate::wire::{Delta, Epoch, Manifest, Plan};

/// The names a run makes; anything else is somebody else's.
const NAMES: [&str; 10] = [
    "fence.mark",
    "fence.mark.lock",
    "fence.mark.tmp",
    "plan",
    "plan.tmp",
    "chain",
    "deltas",
    "counts.tsv",
    "counts.tsv.tmp",
    "counts.tsv.merge",
];

/// The output folder of one run; clones share it, the last one gives up its lock.
#[derive(Clone, Debug)]
pub struct Store {
    pub(super) folder: Arc<Path>,
    pub(super) fence: Fence,
    pub(super) chain: Arc<Mutex<Chain>>,
    /// Replies of commits that are still to be lost; see [`lose_replies`](Self::lose_replies).
    pub(super) lost_replies: Arc<AtomicU32>,
}

/// The state of the chain at one instant.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Snapshot {
    /// The last committed manifest; the default one before the first.
    pub head: Manifest,
    /// The committed epochs in order.
    pub epochs: Vec<Epoch>,
    /// Every delta that the chain references.
    pub deltas: Vec<Delta>,
}

impl Store {
    /// Opens the folder, or makes it, and holds it until the last clone is dropped.
    ///
    /// # Errors
    ///
    /// [`StoreError`]; a folder that this call made is removed again.
    pub fn open(folder: &Path) -> Result<Self, StoreError> {
        let made = first_missing(folder);
        let opened = Self::open_inner(folder);
        if let (Err(_), Some(made)) = (&opened, made) {
            // What a failed open leaves behind is our own: nothing of it was there before.
            let _ = fs::remove_dir_all(made);
        }
        opened
    }

    fn open_inner(folder: &Path) -> Result<Self, StoreError> {
        let named = |error| StoreError::Io(folder.to_owned(), error);
        if fs::metadata(folder).is_ok_and(|meta| !meta.is_dir()) {
            return Err(StoreError::NoFolder(folder.to_owned()));
        }
        fs::create_dir_all(folder).map_err(named)?;
        refuse_foreign(folder)?;
        let fence = Fence::open(folder.join("fence.mark")).map_err(|error| match error {
            fencing::OpenError::Locked { .. } => StoreError::InUse(folder.to_owned()),
            error => StoreError::Fence(error),
        })?;
        fs::create_dir_all(folder.join("deltas")).map_err(named)?;
        let chain = Chain::open(&folder.join("chain")).map_err(StoreError::Chain)?;
        for delta in chain.deltas() {
            let path = folder.join("deltas").join(&delta.name);
            if !fs::metadata(&path).is_ok_and(|meta| meta.len() == delta.file_bytes) {
                return Err(StoreError::Delta(path));
            }
        }
        sync_folder(folder).map_err(named)?;
        Ok(Self {
            folder: folder.into(),
            fence,
            chain: Arc::new(Mutex::new(chain)),
            lost_replies: Arc::default(),
        })
    }

    /// Returns the folder's path.
    #[must_use]
    pub fn folder(&self) -> &Path {
        &self.folder
    }

    /// Returns the highest token that may have been used here, zero for none.
    ///
    /// The next leader's token must be above it.
    #[must_use]
    pub fn highest_token(&self) -> u64 {
        self.fence.highest().max(self.chain().head().id().term)
    }

    /// Returns the chain as it is now.
    #[must_use]
    pub fn snapshot(&self) -> Snapshot {
        let chain = self.chain();
        Snapshot {
            head: chain.head().clone(),
            epochs: chain.epochs().to_vec(),
            deltas: chain.deltas().to_vec(),
        }
    }

    /// Returns the last committed manifest; the default one before the first.
    #[must_use]
    pub fn head(&self) -> Manifest {
        self.chain().head().clone()
    }

    /// Says whether the folder is still there; without it no retry can help.
    #[must_use]
    pub fn is_present(&self) -> bool {
        self.deltas().is_dir()
    }

    /// Returns where a delta of this name lies, or `None` for a name that is none.
    #[must_use]
    pub fn delta_path(&self, name: &str) -> Option<PathBuf> {
        let plain = !name.is_empty() && !name.contains(['/', '\0']) && !name.starts_with('.');
        plain.then(|| self.deltas().join(name))
    }

    /// Returns the folder of the deltas.
    #[must_use]
    pub fn deltas(&self) -> PathBuf {
        self.folder.join("deltas")
    }

    /// Returns the plan of an earlier run.
    ///
    /// # Errors
    ///
    /// [`StoreError::Plan`] where it is damaged, [`StoreError::Io`] where it cannot be read.
    pub fn plan(&self) -> Result<Option<Plan>, StoreError> {
        let path = self.folder.join("plan");
        let bytes = match fs::read(&path) {
            Ok(bytes) => bytes,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
            Err(error) => return Err(StoreError::Io(path, error)),
        };
        let bytes = Bytes::from(bytes);
        let crc = bytes.last_chunk::<4>().map(|crc| u32::from_le_bytes(*crc));
        let body = bytes.slice(..bytes.len().saturating_sub(4));
        match Plan::decode(body.clone()) {
            Ok(plan) if crc == Some(crc32fast::hash(&body)) => Ok(Some(plan)),
            _ => Err(StoreError::Plan(path)),
        }
    }

    /// Keeps the plan for later runs, durably.
    ///
    /// # Errors
    ///
    /// [`StoreError::Io`].
    pub fn keep_plan(&self, plan: &Plan) -> Result<(), StoreError> {
        let bytes = plan.encode_to_vec();
        let crc = crc32fast::hash(&bytes).to_le_bytes();
        let path = self.folder.join("plan");
        replace(&path, |file| {
            file.write_all(&bytes)?;
            file.write_all(&crc)
        })
        .map_err(|e| StoreError::Io(path, e))
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

    pub(super) fn chain(&self) -> MutexGuard<'_, Chain> {
        self.chain.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn refuse_foreign(folder: &Path) -> Result<(), StoreError> {
    let named = |error| StoreError::Io(folder.to_owned(), error);
    for entry in fs::read_dir(folder).map_err(named)? {
        let name = entry.map_err(named)?.file_name();
        let text = name.to_string_lossy();
        // Totals without a chain are not ours either: they would be replaced.
        let is_ours =
            NAMES.contains(&&*text) && (text != "counts.tsv" || folder.join("chain").exists());
        if !is_ours {
            return Err(StoreError::Foreign(folder.to_owned(), text.into_owned()));
        }
    }
    Ok(())
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

/// Returns the uppermost folder that is missing on the way to `folder`.
fn first_missing(folder: &Path) -> Option<PathBuf> {
    let missing = folder
        .ancestors()
        .take_while(|path| !path.as_os_str().is_empty() && fs::symlink_metadata(path).is_err());
    missing.last().map(Path::to_owned)
}

/// Makes the names in a folder durable.
pub(crate) fn sync_folder(folder: &Path) -> io::Result<()> {
    File::open(folder)?.sync_all()
}
