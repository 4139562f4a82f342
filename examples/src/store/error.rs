//! What keeps an output folder from being used.

use std::error::Error;
use std::fmt;
use std::io;
use std::path::PathBuf;

use super::chain::ChainError;

/// Why an output folder cannot be used; one line that says what to do.
#[derive(Debug)]
#[non_exhaustive]
pub enum StoreError {
    /// The folder or a file in it cannot be read or written.
    Io(PathBuf, io::Error),
    /// It holds something else.
    Foreign(PathBuf, String),
    /// It is no folder.
    NoFolder(PathBuf),
    /// Another run uses it.
    InUse(PathBuf),
    /// A file that the chain names is missing or of another length.
    Delta(PathBuf),
    /// The fence refuses: its mark is damaged, or cannot be stored.
    Fence(fencing::OpenError),
    /// The chain is damaged.
    Chain(ChainError),
    /// The stored plan is damaged.
    Plan(PathBuf),
    /// What was kept of the chain is damaged.
    Backup(PathBuf),
}

impl fmt::Display for StoreError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Io(path, error) => write!(f, "cannot use {}: {error}", path.display()),
            Self::Foreign(path, name) => write!(
                f,
                "{} holds {name:?}, which is not of an earlier run: use an empty folder",
                path.display()
            ),
            Self::NoFolder(path) => {
                write!(f, "{} is no folder: name another --out", path.display())
            }
            Self::InUse(path) => write!(
                f,
                "{} is in use by another run: wait for its end, or use another --out",
                path.display()
            ),
            Self::Delta(path) => write!(
                f,
                "{} is missing or damaged: restore it, or use a new --out",
                path.display()
            ),
            Self::Fence(error) => match error.source() {
                Some(cause) => write!(f, "{error}: {cause}"),
                None => write!(f, "{error}"),
            },
            Self::Chain(error) => write!(f, "{error}"),
            Self::Plan(path) | Self::Backup(path) => write!(
                f,
                "{} is damaged: restore it, or use a new --out",
                path.display()
            ),
        }
    }
}

impl Error for StoreError {}
