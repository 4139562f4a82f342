//! The input: which files, cut into slices, grouped into shards.

mod find;
mod parts;
mod plan;

use std::fmt;
use std::path::PathBuf;

pub use find::{default_input, find_files};
pub use parts::Parts;
pub use plan::{InputPlan, ShardReader, advance};

/// What is wrong with the input; one line that names the path.
#[derive(Debug)]
#[non_exhaustive]
pub enum InputError {
    /// A file or folder cannot be read.
    Unreadable(PathBuf, std::io::Error),
    /// There is no file at all.
    Empty,
    /// What was named is neither a file nor a folder.
    NoFile(PathBuf),
    /// A file is not what it was when the input was first read.
    Changed(PathBuf),
    /// The files are others than in the output folder's first run.
    OtherFiles,
}

impl fmt::Display for InputError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Unreadable(path, error) => write!(f, "cannot read {}: {error}", path.display()),
            Self::Empty => f.write_str("no file to count: name files, or folders that hold some"),
            Self::NoFile(path) => {
                write!(f, "{} is neither a file nor a folder", path.display())
            }
            Self::Changed(path) => write!(
                f,
                "{} has changed since it was first looked at: count it anew, with a new --out",
                path.display()
            ),
            Self::OtherFiles => f.write_str(
                "the files differ from those of the output folder's first run: use a new --out",
            ),
        }
    }
}

impl std::error::Error for InputError {}
