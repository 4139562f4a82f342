//! Hunts a token that is admitted though its mark cannot be stored, and a fence that has to
//! be opened anew once it can be: a disk that is full or has become read-only, and a lock
//! whose call a signal interrupts.
//!
//! Each test runs itself again in a mount namespace of its own, or under strace.

use std::error::Error;
use std::fs::{self, File};
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::process::Command;

use fencing::{AdmitError, Fence};
use tempfile::tempdir;

use crate::support::wait;

const FOLDER: &str = "FENCING_TEST_FOLDER";

fn folder() -> Option<PathBuf> {
    std::env::var_os(FOLDER).map(PathBuf::from)
}

/// Runs a test of this file again, after `script`, in a mount namespace of its own.
fn again(test: &str, script: &str) {
    let folder = tempdir().unwrap();
    let status = Command::new("unshare")
        .args([
            "--mount",
            "sh",
            "-c",
            &format!("{script} && exec \"$@\""),
            "sh",
        ])
        .arg(std::env::current_exe().unwrap())
        .args([
            "--exact",
            &format!("troubled_storage::{test}"),
            "--nocapture",
        ])
        .env(FOLDER, folder.path())
        .status()
        .expect("unshare is missing: install the package util-linux");
    assert!(
        status.success(),
        "in its own mount namespace (needs root): {status}"
    );
}

/// Admits nothing while `is_broken`, and goes on by itself after `mend`.
fn refuses_until_mended(
    path: &Path,
    kind: io::ErrorKind,
    spoil: impl FnOnce(),
    mend: impl FnOnce(),
) {
    let fence = Fence::open(path).unwrap();
    let low = wait(fence.admit(5)).unwrap();
    spoil();
    let mut fault = 0;
    for _ in 0..3 {
        let error = wait(fence.admit(6)).unwrap_err();
        let text = error.to_string();
        assert!(text.contains("repair what the cause says"), "{text}");
        let AdmitError::Storage(storage) = error else {
            panic!("{error}");
        };
        assert_eq!(storage.kind(), kind);
        let cause = storage.source().unwrap().to_string();
        assert!(cause.contains("orders.mark.tmp"), "{cause}");
        fault += 1;
    }
    assert!(low.is_revoked());
    assert!(matches!(wait(fence.admit(5)), Err(AdmitError::Stale(_))));
    mend();
    drop(low);
    // The same fence, without a restart.
    drop(wait(fence.admit(6)).unwrap());
    drop(fence);
    assert_eq!(Fence::open(path).unwrap().highest(), 6);
    println!("fault={fault} {kind:?}");
}

#[test]
fn a_full_disk_admits_nothing_until_it_has_room_again() {
    let Some(disk) = folder() else {
        let script = format!("mount -t tmpfs -o size=64k none \"${FOLDER}\"");
        return again(
            "a_full_disk_admits_nothing_until_it_has_room_again",
            &script,
        );
    };
    let filler = disk.join("filler");
    let fill = || {
        let mut file = File::create(&filler).unwrap();
        let full = loop {
            if let Err(error) = file.write_all(&[1; 4096]) {
                break error;
            }
        };
        assert_eq!(full.kind(), io::ErrorKind::StorageFull);
    };
    let mend = || fs::remove_file(&filler).unwrap();
    let path = disk.join("orders.mark");
    refuses_until_mended(&path, io::ErrorKind::StorageFull, fill, mend);
}

fn mount(program: &str, args: &[&str]) {
    let status = Command::new(program).args(args).status();
    let status = status.expect("mount is missing: install the package mount");
    assert!(status.success(), "{program} {args:?}: {status}");
}

#[test]
fn a_file_system_that_becomes_read_only_admits_nothing_until_it_can_be_written() {
    let Some(disk) = folder() else {
        let test = "a_file_system_that_becomes_read_only_admits_nothing_until_it_can_be_written";
        return again(test, "true");
    };
    let place = disk.to_str().unwrap();
    // Over the folder, since the lock is open to be written.
    let spoil = || {
        mount("mount", &["--bind", place, place]);
        mount("mount", &["-o", "remount,bind,ro", place]);
    };
    let mend = || mount("umount", &[place]);
    let path = disk.join("orders.mark");
    refuses_until_mended(&path, io::ErrorKind::ReadOnlyFilesystem, spoil, mend);
}

/// Some file systems wait for a server before they lock.
#[test]
fn a_signal_while_the_lock_is_taken_changes_nothing() {
    if let Some(folder) = folder() {
        let fence = Fence::open(folder.join("orders.mark")).unwrap();
        drop(wait(fence.admit(1)).unwrap());
        return;
    }
    let folder = tempdir().unwrap();
    let trace = folder.path().join("trace");
    let status = Command::new("strace")
        .args([
            "-f",
            "-qq",
            "-e",
            "inject=flock:error=EINTR:when=1..2",
            "-o",
        ])
        .arg(&trace)
        .arg(std::env::current_exe().unwrap())
        .args([
            "--exact",
            "troubled_storage::a_signal_while_the_lock_is_taken_changes_nothing",
        ])
        .env(FOLDER, folder.path())
        .status()
        .expect("strace is missing: install the package strace");
    let trace = fs::read_to_string(trace).unwrap();
    let interrupted = trace.matches("EINTR").count();
    assert!(status.success(), "{status}: {trace}");
    assert_eq!(interrupted, 2, "{trace}");
    println!("fault={interrupted} EINTR");
}
