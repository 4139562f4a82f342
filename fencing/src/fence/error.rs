//! Why a token is not admitted, or a fence not opened.

use std::io;
use std::path::PathBuf;
use std::sync::Arc;

use crate::token::{InvalidToken, Token};

/// A token was not admitted: do not apply its effect.
#[derive(Clone, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum AdmitError {
    /// A higher token was seen. Its holder has taken over; a retry cannot help.
    #[error(transparent)]
    Stale(#[from] StaleToken),
    /// The token is of another scope. A retry cannot help before a reset.
    #[error(transparent)]
    WrongScope(#[from] WrongScope),
    /// No fence admits this token. Fix the caller.
    #[error("the token is invalid")]
    Invalid(#[from] InvalidToken),
    /// Effects of lower tokens are still being applied. Lower tokens are refused and
    /// told; try again, which waits again.
    #[error("token {token} waited too long for {lower} effects of lower tokens to end")]
    #[non_exhaustive]
    Busy {
        /// The token that waited.
        token: Token,
        /// How many lower admissions are held.
        lower: usize,
    },
    /// The mark could not be stored. Nothing is admitted until it could; try again,
    /// which stores again.
    #[error(transparent)]
    Storage(StorageError),
}

/// The token is below the highest seen.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("token {token} is stale: the highest seen is {highest}")]
#[non_exhaustive]
pub struct StaleToken {
    /// Number of the token that was refused.
    pub token: u64,
    /// The highest number seen in its scope.
    pub highest: u64,
}

/// The token is of another scope than the fence.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "token {token} is not of this fence's scope {scope:?}; if its store was rebuilt, and no holder of an older token is left, an operator calls reset({:?})", token.scope()
)]
#[non_exhaustive]
pub struct WrongScope {
    /// The token that was refused.
    pub token: Token,
    /// The scope whose tokens the fence admits.
    pub scope: String,
}

/// The mark could not be made durable.
#[derive(Clone, Debug, thiserror::Error)]
#[error(
    "the fence's mark could not be stored, and nothing is admitted until it is: repair what the cause says, then try again"
)]
pub struct StorageError {
    source: Arc<io::Error>,
}

/// The scope of a fence could not be reset.
#[derive(Clone, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ResetError {
    /// The scope is too long.
    #[error("the scope is invalid")]
    Invalid(#[from] InvalidToken),
    /// The new scope could not be stored. It holds in this process all the same;
    /// nothing is admitted until it is stored. Call reset again.
    #[error(transparent)]
    Storage(StorageError),
}

/// A fence could not be opened; what it guards must not be used.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum OpenError {
    /// Another fence of this or another process has the file open.
    #[error(
        "{} is locked by another fence: use clones of one fence, and stop the other process", path.display()
    )]
    #[non_exhaustive]
    Locked {
        /// The lock file.
        path: PathBuf,
    },
    /// The file is not what a fence wrote, so the highest token is not known.
    #[error(
        "{} is damaged: restore it, or move it away once no holder of an older token is left", path.display()
    )]
    #[non_exhaustive]
    Damaged {
        /// The file of the mark.
        path: PathBuf,
    },
    /// The path names no file that could be a mark.
    #[error("{} cannot hold a mark: {problem}", path.display())]
    #[non_exhaustive]
    BadPath {
        /// The path as it was given.
        path: PathBuf,
        /// What is wrong and what to do.
        problem: &'static str,
    },
    /// The system refused an operation.
    #[error("cannot {operation} {}", path.display())]
    #[non_exhaustive]
    Io {
        /// What was tried, as a verb.
        operation: &'static str,
        /// What it was tried on.
        path: PathBuf,
        /// What the system said.
        source: io::Error,
    },
}

// ===== impl StorageError =====

impl StorageError {
    pub(super) fn new(source: io::Error) -> Self {
        Self {
            source: Arc::new(source),
        }
    }

    /// Returns what kind of failure it was.
    #[must_use]
    pub fn kind(&self) -> io::ErrorKind {
        self.source.kind()
    }
}
