//! The file of a durable fence.

use std::ffi::OsString;
use std::fs::{self, File};
use std::io::{self, Read, Write};
use std::path::{Path, PathBuf};

use crate::fence::error::OpenError;
use crate::fence::lock::FileLock;
use crate::fence::mark::{MAX_FILE_LEN, Mark};

/// Ends of the names of the files beside a mark, which no mark may have, and what is said
/// of one that has.
const LOCK: (&str, &str) = (
    ".lock",
    "its name ends with .lock, as that of another mark's lock; name it otherwise",
);
const TEMPORARY: (&str, &str) = (
    ".tmp",
    "its name ends with .tmp, as that of another mark's next version; name it otherwise",
);

/// A file that holds a mark, locked for this process.
#[derive(Debug)]
pub(super) struct Store {
    path: PathBuf,
    folder: PathBuf,
    lock: FileLock,
}

// ===== impl Store =====

impl Store {
    /// Locks the file and reads its mark. A missing file is a mark of nothing.
    ///
    /// The mark is stored again: this proves that it can be, and what a crashed
    /// process had renamed but not yet made durable becomes so before it counts.
    pub(super) fn open(given: &Path) -> Result<(Self, Mark), OpenError> {
        let (path, folder) = resolve(given)?;
        for suffix in [LOCK, TEMPORARY] {
            if path
                .as_os_str()
                .as_encoded_bytes()
                .ends_with(suffix.0.as_bytes())
            {
                return Err(bad(&path, suffix.1));
            }
        }
        let lock = lock(beside(&path, LOCK.0))?;
        let store = Self { path, folder, lock };
        let mark = store.read()?;
        match store.save(&mark) {
            Ok(()) => Ok((store, mark)),
            Err(error) => Err(failed("store a mark in", &store.path, error)),
        }
    }

    /// Stores `mark` so that it survives a crash at any instant: the file holds the
    /// old or the new mark at all times, and the new one when this returns.
    pub(super) fn save(&self, mark: &Mark) -> io::Result<()> {
        self.lock.verify()?;
        let temporary = beside(&self.path, TEMPORARY.0);
        self.write(&temporary, mark).map_err(|error| {
            let path = temporary.display();
            io::Error::new(error.kind(), format!("cannot put {path} in place: {error}"))
        })
    }

    fn write(&self, temporary: &Path, mark: &Mark) -> io::Result<()> {
        // Left by a crash, or by a write that failed: its pages cannot be trusted.
        match fs::remove_file(temporary) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
            _ => {}
        }
        let mut file = File::create_new(temporary)?;
        file.write_all(&mark.encode())?;
        file.sync_all()?;
        drop(file);
        fs::rename(temporary, &self.path)?;
        sync_folder(&self.folder)
    }

    fn read(&self) -> Result<Mark, OpenError> {
        let mut bytes = Vec::new();
        let read = plain_file(&self.path).and_then(|file| {
            if file.metadata()?.is_file() {
                file.take(MAX_FILE_LEN).read_to_end(&mut bytes)
            } else {
                // It was one when its name was resolved.
                Err(io::Error::other("it is no regular file any more"))
            }
        });
        match read {
            Ok(_) => Mark::decode(&bytes).ok_or_else(|| OpenError::Damaged {
                path: self.path.clone(),
            }),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(Mark::default()),
            Err(error) => Err(failed("read", &self.path, error)),
        }
    }
}

/// Finds the file itself and its folder, so that two names of one file (a link, a
/// relative path) meet at one lock.
fn resolve(given: &Path) -> Result<(PathBuf, PathBuf), OpenError> {
    let bad = |problem| bad(given, problem);
    let Some(name) = given.file_name() else {
        return Err(bad("name a file"));
    };
    // Such a name would make a file here that is not found by it again.
    let text = given.as_os_str().as_encoded_bytes();
    if !text.ends_with(name.as_encoded_bytes()) && !given.is_dir() {
        return Err(bad("it ends as a folder does; name a file"));
    }
    match given.symlink_metadata() {
        Ok(_) => {
            let Ok(path) = given.canonicalize() else {
                return Err(bad("it is a link that leads nowhere; name the file itself"));
            };
            if path.is_dir() {
                return Err(bad("it is a folder; name a file in it"));
            }
            if !path.is_file() {
                return Err(bad("it is no regular file; name another one"));
            }
            let folder = path.parent().map(Path::to_owned);
            let folder = folder.ok_or_else(|| bad("name a file in a folder"))?;
            Ok((path, folder))
        }
        Err(error) if error.kind() == io::ErrorKind::NotFound => {
            let folder = match given.parent() {
                Some(folder) if !folder.as_os_str().is_empty() => folder,
                _ => Path::new("."),
            };
            let folder = folder
                .canonicalize()
                .map_err(|_| bad("its folder is missing; create it first"))?;
            Ok((folder.join(name), folder))
        }
        Err(error) if error.kind() == io::ErrorKind::NotADirectory => {
            Err(bad("its folder is a file; name a file in a folder"))
        }
        Err(error) => Err(failed("look at", given, error)),
    }
}

/// Opens a file to be read; what is none is not waited for.
fn plain_file(path: &Path) -> io::Result<File> {
    let mut options = File::options();
    #[cfg(unix)]
    std::os::unix::fs::OpenOptionsExt::custom_flags(&mut options, crate::fence::lock::plain());
    options.read(true).open(path)
}

fn lock(path: PathBuf) -> Result<FileLock, OpenError> {
    // A lock on what a link leads to, or on a device, may be one that others do not meet.
    if let Ok(found) = path.symlink_metadata()
        && !found.is_file()
    {
        let problem = "it is in the place of the lock and no regular file; remove it";
        return Err(bad(&path, problem));
    }
    FileLock::acquire(path.clone()).map_err(|error| match error.kind() {
        io::ErrorKind::WouldBlock => OpenError::Locked { path },
        _ => failed("lock", &path, error),
    })
}

fn bad(path: &Path, problem: &'static str) -> OpenError {
    let path = path.to_owned();
    OpenError::BadPath { path, problem }
}

/// Names a file in the same folder, hence on the same file system.
fn beside(path: &Path, suffix: &str) -> PathBuf {
    let mut name = OsString::from(path);
    name.push(suffix);
    name.into()
}

fn failed(operation: &'static str, path: &Path, source: io::Error) -> OpenError {
    OpenError::Io {
        operation,
        path: path.to_owned(),
        source,
    }
}

/// Makes a rename durable.
#[cfg(unix)]
fn sync_folder(folder: &Path) -> io::Result<()> {
    File::open(folder)?.sync_all()
}

/// Folders cannot be synced here; the file system's journal orders the rename.
#[cfg(not(unix))]
fn sync_folder(_folder: &Path) -> io::Result<()> {
    Ok(())
}
