//! The lock that keeps one file to one fence.

use std::fs::{File, OpenOptions};
use std::io;
use std::path::{Path, PathBuf};
use std::process;

/// An exclusive lock on a file beside the mark. The mark's own file cannot carry
/// it, since each save replaces that file.
#[derive(Debug)]
pub(super) struct FileLock {
    file: File,
    path: PathBuf,
    /// The process that took the lock: a forked child shares it and must not use it.
    owner: u32,
}

// ===== impl FileLock =====

impl FileLock {
    /// Takes the lock; [`io::ErrorKind::WouldBlock`] says that another has it.
    pub(super) fn acquire(path: PathBuf) -> io::Result<Self> {
        let file = lock(&path)?;
        let owner = process::id();
        let lock = Self { file, path, owner };
        // Another may have removed the file between opening and locking it.
        lock.verify()?;
        Ok(lock)
    }

    /// Checks that the locked file is the one that others would lock.
    pub(super) fn verify(&self) -> io::Result<()> {
        if process::id() != self.owner {
            return Err(io::Error::other(
                "the fence was opened before a fork: use it in the process that opened it",
            ));
        }
        if is_same(&self.file, &self.path)? {
            return Ok(());
        }
        let path = self.path.display();
        Err(io::Error::other(format!(
            "the lock file {path} was replaced: another process may hold the new one"
        )))
    }
}

impl Drop for FileLock {
    fn drop(&mut self) {
        if process::id() == self.owner {
            unlock(&self.file);
        }
    }
}

#[cfg(unix)]
fn lock(path: &Path) -> io::Result<File> {
    use std::os::unix::fs::OpenOptionsExt;

    use rustix::fs::{FlockOperation, flock};
    use rustix::io::retry_on_intr;

    let file = OpenOptions::new()
        .read(true)
        .write(true)
        .create(true)
        .truncate(false)
        .custom_flags(plain())
        .open(path)?;
    // Not every file system takes it without a wait, which a signal interrupts.
    retry_on_intr(|| flock(&file, FlockOperation::NonBlockingLockExclusive))?;
    Ok(file)
}

/// Opens what the name itself is, and waits for nobody at the other end of it.
#[cfg(unix)]
pub(super) fn plain() -> i32 {
    libc::O_NOFOLLOW | libc::O_NONBLOCK | libc::O_NOCTTY
}

/// Unlocks by name: closing would leave the lock to a child process that is between
/// fork and exec and shares the open file.
#[cfg(unix)]
fn unlock(file: &File) {
    // An error would mean that nothing is locked; there is nothing to do about it.
    let _ = rustix::fs::flock(file, rustix::fs::FlockOperation::Unlock);
}

#[cfg(unix)]
fn is_same(file: &File, path: &Path) -> io::Result<bool> {
    use std::os::unix::fs::MetadataExt;

    let locked = file.metadata()?;
    let named = match path.symlink_metadata() {
        Ok(named) => named,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(false),
        Err(error) => return Err(error),
    };
    Ok((locked.dev(), locked.ino()) == (named.dev(), named.ino()))
}

/// A file that is open without sharing can be neither opened nor removed by others.
#[cfg(windows)]
fn lock(path: &Path) -> io::Result<File> {
    use std::os::windows::fs::OpenOptionsExt;

    const SHARING_VIOLATION: i32 = 32;
    OpenOptions::new()
        .read(true)
        .write(true)
        .create(true)
        .truncate(false)
        .share_mode(0)
        .open(path)
        .map_err(|error| match error.raw_os_error() {
            Some(SHARING_VIOLATION) => io::ErrorKind::WouldBlock.into(),
            _ => error,
        })
}

#[cfg(not(any(unix, windows)))]
fn lock(_path: &Path) -> io::Result<File> {
    Err(io::ErrorKind::Unsupported.into())
}

#[cfg(not(unix))]
fn unlock(_file: &File) {}

#[cfg(not(unix))]
fn is_same(_file: &File, _path: &Path) -> io::Result<bool> {
    Ok(true)
}
