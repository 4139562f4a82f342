//! The folder itself: who holds it, and what is in it.

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::atomic::AtomicU32;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use fencing::Fence;

use super::chain::Chain;
use super::error::StoreError;
use super::output::{Output, read_plan, sync_folder, write_plan};
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
    pub(super) output: Output,
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
        let output = Output::new(folder);
        output.check(chain.deltas())?;
        sync_folder(folder).map_err(named)?;
        Ok(Self {
            output,
            fence,
            chain: Arc::new(Mutex::new(chain)),
            lost_replies: Arc::default(),
        })
    }

    /// Returns where the files of the run lie.
    #[must_use]
    pub fn output(&self) -> &Output {
        &self.output
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

    /// Returns the folder of the deltas.
    #[must_use]
    pub fn deltas(&self) -> PathBuf {
        self.output.deltas()
    }

    /// Returns the plan of an earlier run.
    ///
    /// # Errors
    ///
    /// [`StoreError::Plan`] where it is damaged, [`StoreError::Io`] where it cannot be read.
    pub fn plan(&self) -> Result<Option<Plan>, StoreError> {
        Ok(read_plan(&self.plan_path())?.map(|(plan, _)| plan))
    }

    /// Keeps the plan for later runs, durably.
    ///
    /// # Errors
    ///
    /// [`StoreError::Io`].
    pub fn keep_plan(&self, plan: &Plan) -> Result<(), StoreError> {
        write_plan(&self.plan_path(), plan).map(drop)
    }

    fn plan_path(&self) -> PathBuf {
        self.output.folder().join("plan")
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

/// Returns the uppermost folder that is missing on the way to `folder`.
fn first_missing(folder: &Path) -> Option<PathBuf> {
    let missing = folder
        .ancestors()
        .take_while(|path| !path.as_os_str().is_empty() && fs::symlink_metadata(path).is_err());
    missing.last().map(Path::to_owned)
}
