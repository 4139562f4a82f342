//! Finds the files to count.

use std::fs::{self, Metadata};
use std::ops::Range;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use prost::bytes::Bytes;

use super::InputError;
use crate::wire::Source;

/// Returns this workspace's folder: the default input.
#[must_use]
pub fn default_input() -> PathBuf {
    let examples = Path::new(env!("CARGO_MANIFEST_DIR"));
    examples.parent().unwrap_or(examples).to_owned()
}

/// Lists the regular files in and below `paths`, each folder in order of names.
///
/// A path that is given twice is counted twice. Links inside folders are not
/// followed, `leave_out` and what is below it is not entered, and with
/// `skip_built` neither are hidden folders and `target`.
///
/// # Errors
///
/// [`InputError::Unreadable`] with the first path that cannot be listed, and
/// [`InputError::Empty`] where no file was found.
pub fn find_files(
    paths: &[PathBuf],
    leave_out: Option<&Path>,
    skip_built: bool,
) -> Result<Vec<Source>, InputError> {
    let leave_out = leave_out.and_then(|path| fs::canonicalize(path).ok());
    let mut search = Search {
        paths: Vec::new(),
        found: Vec::new(),
        leave_out,
        skip_built,
    };
    for path in paths {
        let meta = fs::metadata(path).map_err(|e| InputError::Unreadable(path.clone(), e))?;
        if !meta.is_file() && !meta.is_dir() {
            return Err(InputError::NoFile(path.clone()));
        }
        search.visit(path, &meta)?;
    }
    if search.found.is_empty() {
        return Err(InputError::Empty);
    }
    Ok(search.into_sources())
}

struct Search {
    /// All paths in one buffer: some hundred thousand small ones would cost several times more.
    paths: Vec<u8>,
    found: Vec<Found>,
    leave_out: Option<PathBuf>,
    skip_built: bool,
}

struct Found {
    path: Range<usize>,
    len: u64,
    modified_ns: i64,
}

impl Search {
    fn visit(&mut self, path: &Path, meta: &Metadata) -> Result<(), InputError> {
        if meta.is_file() {
            let start = self.paths.len();
            self.paths.extend_from_slice(path.as_os_str().as_bytes());
            self.found.push(Found {
                path: start..self.paths.len(),
                len: meta.len(),
                modified_ns: modified_ns(meta),
            });
        } else if meta.is_dir() && !self.is_left_out(path) {
            let named = |e| InputError::Unreadable(path.to_owned(), e);
            let mut entries = fs::read_dir(path)
                .map_err(named)?
                .collect::<Result<Vec<_>, _>>()
                .map_err(named)?;
            entries.sort_by_key(fs::DirEntry::file_name);
            for entry in entries {
                let name = entry.file_name();
                let built = name == "target" || name.as_bytes().starts_with(b".");
                if !(self.skip_built && built) {
                    let path = entry.path();
                    let meta = entry.metadata();
                    let meta = meta.map_err(|e| InputError::Unreadable(path.clone(), e))?;
                    self.visit(&path, &meta)?;
                }
            }
        }
        Ok(())
    }

    fn into_sources(self) -> Vec<Source> {
        let paths = Bytes::from(self.paths.into_boxed_slice());
        let found = self.found.into_iter();
        let mut sources: Vec<Source> = found
            .map(|found| Source {
                path: paths.slice(found.path),
                len: found.len,
                modified_ns: found.modified_ns,
            })
            .collect();
        sources.shrink_to_fit();
        sources
    }

    fn is_left_out(&self, path: &Path) -> bool {
        self.leave_out.is_some() && fs::canonicalize(path).ok() == self.leave_out
    }
}

/// Returns when a file was changed last, as a plan keeps it.
pub(super) fn modified_ns(meta: &Metadata) -> i64 {
    meta.mtime() * 1_000_000_000 + meta.mtime_nsec()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn names(found: &[Source]) -> Vec<String> {
        found
            .iter()
            .map(|source| {
                let path = String::from_utf8(source.path.to_vec()).unwrap();
                path.rsplit('/').next().unwrap().to_owned()
            })
            .collect()
    }

    #[test]
    fn folders_are_walked_in_order_without_links_and_the_output() {
        let folder = tempfile::tempdir().unwrap();
        let root = folder.path();
        for name in ["b", "a", ".hidden"] {
            fs::write(root.join(name), name).unwrap();
        }
        for name in ["out", "target", "sub"] {
            fs::create_dir(root.join(name)).unwrap();
            fs::write(root.join(name).join(format!("in-{name}")), "x").unwrap();
        }
        std::os::unix::fs::symlink(root, root.join("sub/loop")).unwrap();
        let all = [root.to_owned(), root.join("a")];
        let found = find_files(&all, Some(&root.join("out")), false).unwrap();
        assert_eq!(
            names(&found),
            [".hidden", "a", "b", "in-sub", "in-target", "a"]
        );
        let found = find_files(&all[..1], None, true).unwrap();
        assert_eq!(names(&found), ["a", "b", "in-out", "in-sub"]);
    }

    #[test]
    fn a_missing_path_is_named_and_an_empty_folder_is_no_input() {
        let folder = tempfile::tempdir().unwrap();
        let missing = folder.path().join("none");
        let error = find_files(&[missing], None, false).unwrap_err();
        assert!(error.to_string().contains("none"), "{error}");
        let empty = [folder.path().to_owned()];
        let error = find_files(&empty, None, false).unwrap_err();
        assert!(matches!(error, InputError::Empty));
    }
}
