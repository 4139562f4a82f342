//! Hunts two fences that store one mark.
#![cfg(unix)]

mod support;

use std::fs;
use std::os::unix::fs::symlink;
use std::path::Path;
use std::pin::pin;

use fencing::{AdmitError, Fence, OpenError};
use support::{poll_once, wait};
use tempfile::tempdir;

fn is_locked(path: &Path) -> bool {
    match Fence::open(path) {
        Ok(_) => false,
        Err(OpenError::Locked { .. }) => true,
        Err(error) => panic!("{error}"),
    }
}

#[test]
fn a_second_opener_is_refused_with_a_text_while_any_handle_lives() {
    let folder = tempdir().unwrap();
    let path = folder.path().join("orders.mark");
    let fence = Fence::open(&path).unwrap();
    let text = Fence::open(&path).unwrap_err().to_string();
    assert!(
        text.contains("orders.mark.lock is locked by another fence"),
        "{text}"
    );
    let clone = fence.clone();
    drop(fence);
    assert!(is_locked(&path));
    // An effect under way counts too: nobody else may admit a higher token yet.
    let admission = wait(clone.admit(1)).unwrap();
    drop(clone);
    assert!(is_locked(&path));
    drop(admission);
    assert!(!is_locked(&path));
}

#[test]
fn a_refused_opener_changes_nothing() {
    let folder = tempdir().unwrap();
    let path = folder.path().join("orders.mark");
    let fence = Fence::open(&path).unwrap();
    drop(wait(fence.admit(9)).unwrap());
    let before = fs::read(&path).unwrap();
    assert!(is_locked(&path));
    assert_eq!(fs::read(&path).unwrap(), before);
    drop(wait(fence.admit(10)).unwrap());
}

#[test]
fn the_last_drop_unlocks_at_once() {
    let folder = tempdir().unwrap();
    let path = folder.path().join("orders.mark");
    for token in 1..200 {
        let fence = Fence::open(&path).unwrap();
        assert_eq!(fence.highest(), token - 1);
        // Each raise is written by a thread, which must not keep the lock.
        drop(wait(fence.admit(token)).unwrap());
    }
}

#[test]
fn a_write_that_outlives_the_fence_keeps_the_lock_and_lands_whole() {
    let folder = tempdir().unwrap();
    let path = folder.path().join("orders.mark");
    for token in 1..50 {
        let fence = Fence::open(&path).unwrap();
        let _ = poll_once(pin!(fence.admit(token)));
        drop(fence);
        support::until("the write has ended", || !is_locked(&path));
        let fence = Fence::open(&path).unwrap();
        assert!([token - 1, token].contains(&fence.highest()), "{fence:?}");
        drop(wait(fence.admit(token)).unwrap());
    }
}

#[test]
fn other_names_of_the_file_meet_the_same_lock() {
    let folder = tempdir().unwrap();
    let path = folder.path().join("orders.mark");
    let (link, folder_link) = (folder.path().join("link.mark"), folder.path().join("same"));
    let fence = Fence::open(&path).unwrap();
    symlink(&path, &link).unwrap();
    symlink(folder.path(), &folder_link).unwrap();
    assert!(is_locked(&link));
    assert!(is_locked(&folder_link.join("orders.mark")));
    fs::create_dir(folder.path().join("sub")).unwrap();
    assert!(is_locked(&folder.path().join("sub/../orders.mark")));
    drop(fence);
    // A raise by the link's name reaches the file and leaves the link.
    let fence = Fence::open(&link).unwrap();
    drop(wait(fence.admit(7)).unwrap());
    drop(fence);
    assert!(link.symlink_metadata().unwrap().is_symlink());
    assert_eq!(Fence::open(&path).unwrap().highest(), 7);
}

#[test]
fn a_lock_file_that_was_replaced_stops_the_writing() {
    let folder = tempdir().unwrap();
    let path = folder.path().join("orders.mark");
    let fence = Fence::open(&path).unwrap();
    drop(wait(fence.admit(1)).unwrap());
    fs::remove_file(folder.path().join("orders.mark.lock")).unwrap();
    // Somebody can open it now, so this fence must not write below the other's mark.
    let other = Fence::open(&path).unwrap();
    drop(wait(other.admit(9)).unwrap());
    assert!(matches!(wait(fence.admit(2)), Err(AdmitError::Storage(_))));
    drop(other);
    assert_eq!(Fence::open(&path).unwrap().highest(), 9);
}

/// The child shares the lock's open file: unlocking there would unlock it here.
#[test]
#[expect(unsafe_code, reason = "the standard library has no fork without exec")]
fn a_forked_child_neither_unlocks_the_parents_mark_nor_stores_it() {
    let folder = tempdir().unwrap();
    let path = folder.path().join("orders.mark");
    let fence = Fence::open(&path).unwrap();
    // SAFETY: the child uses nothing that another thread may have locked when it was made,
    // and ends without returning.
    let child = unsafe { libc::fork() };
    if child == 0 {
        // SAFETY: takes no pointer. A child that hangs is ended.
        unsafe { libc::alarm(20) };
        let is_refused = matches!(fence.admit_blocking(5), Err(AdmitError::Storage(_)));
        drop(fence);
        // SAFETY: takes no pointer and does not return.
        unsafe { libc::_exit(if is_refused { 0 } else { 1 }) };
    }
    let mut status = -1;
    // SAFETY: the pointer is to a live value.
    assert_eq!(unsafe { libc::waitpid(child, &raw mut status, 0) }, child);
    assert_eq!(status, 0, "the child stored the mark, or hung");
    assert!(is_locked(&path));
    drop(wait(fence.admit(1)).unwrap());
}
