//! Hunts a mark that is read lower than it was written, or written where it cannot
//! last.
#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

mod support;

use std::error::Error;
use std::fs;
use std::path::Path;

use fencing::{AdmitError, Fence, OpenError, ResetError, Token};
use support::wait;
use tempfile::tempdir;

fn damaged(path: &Path) -> String {
    match Fence::open(path).unwrap_err() {
        error @ OpenError::Damaged { .. } => error.to_string(),
        error => panic!("{error}"),
    }
}

#[test]
fn a_mark_survives_with_its_scope() {
    let folder = tempdir().unwrap();
    let path = folder.path().join("orders.mark");
    for (scope, number) in [("", 5), ("", u64::MAX), ("life/étage\ntwo", 1)] {
        let fence = Fence::open(&path).unwrap();
        fence.reset(scope).unwrap();
        drop(wait(fence.admit(Token::scoped(scope, number))).unwrap());
        drop(fence);
        let fence = Fence::open(&path).unwrap();
        assert_eq!(
            (fence.highest(), fence.scope().as_deref()),
            (number, Some(scope))
        );
        drop(wait(fence.admit(Token::scoped(scope, number))).unwrap());
        if number > 1 {
            let lower = Token::scoped(scope, number - 1);
            assert!(matches!(
                wait(fence.admit(lower)),
                Err(AdmitError::Stale(_))
            ));
        }
    }
}

#[test]
fn a_reset_survives_before_any_token() {
    let folder = tempdir().unwrap();
    let path = folder.path().join("orders.mark");
    let fence = Fence::open(&path).unwrap();
    drop(wait(fence.admit(9)).unwrap());
    fence.reset("new").unwrap();
    drop(fence);
    let fence = Fence::open(&path).unwrap();
    assert_eq!(
        (fence.highest(), fence.scope().as_deref()),
        (0, Some("new"))
    );
    assert!(matches!(
        wait(fence.admit(10)),
        Err(AdmitError::WrongScope(_))
    ));
    drop(wait(fence.admit(Token::scoped("new", 1))).unwrap());
}

#[test]
fn a_short_garbled_or_empty_file_opens_for_nobody_and_stays_as_it_is() {
    let folder = tempdir().unwrap();
    let path = folder.path().join("orders.mark");
    drop(wait(Fence::open(&path).unwrap().admit(10)).unwrap());
    let good = fs::read(&path).unwrap();
    let mut files: Vec<Vec<u8>> = (0..good.len()).map(|len| good[..len].to_vec()).collect();
    files.extend((0..good.len()).map(|at| {
        let mut garbled = good.clone();
        garbled[at] ^= 1;
        garbled
    }));
    files.extend([vec![0; good.len()], b"0\n".to_vec(), vec![b'x'; 100_000]]);
    for bytes in files {
        fs::write(&path, &bytes).unwrap();
        let text = damaged(&path);
        assert!(text.contains("is damaged: restore it"), "{text}");
        assert_eq!(fs::read(&path).unwrap(), bytes);
    }
    fs::write(&path, &good).unwrap();
    assert_eq!(Fence::open(&path).unwrap().highest(), 10);
}

#[test]
fn what_a_crash_left_beside_the_mark_is_ignored() {
    let folder = tempdir().unwrap();
    let path = folder.path().join("orders.mark");
    drop(wait(Fence::open(&path).unwrap().admit(10)).unwrap());
    fs::write(folder.path().join("orders.mark.tmp"), "fencing mark 1\ntok").unwrap();
    let fence = Fence::open(&path).unwrap();
    assert_eq!(fence.highest(), 10);
    drop(wait(fence.admit(11)).unwrap());
    assert!(!folder.path().join("orders.mark.tmp").exists());
}

#[test]
fn a_path_that_can_hold_no_mark_is_refused_and_says_what_to_do() {
    let folder = tempdir().unwrap();
    let at = |name: &str| folder.path().join(name);
    fs::write(at("file"), "").unwrap();
    #[cfg(unix)]
    std::os::unix::fs::symlink(at("nowhere"), at("link")).unwrap();
    let table = [
        (
            at("missing/orders.mark"),
            "its folder is missing; create it first",
        ),
        (
            folder.path().to_owned(),
            "it is a folder; name a file in it",
        ),
        (at("file/orders.mark"), "its folder is a file"),
        (at(".."), "name a file"),
        ("".into(), "name a file"),
        // Else a file of this name would be made, and not be found again by it.
        (at("new/"), "it ends as a folder does"),
        (at("new/."), "it ends as a folder does"),
        (at("file/"), "it ends as a folder does"),
        // Names that a fence beside it would take for its own.
        (at("orders.mark.tmp"), "its name ends with .tmp"),
        (at("orders.mark.lock"), "its name ends with .lock"),
        #[cfg(unix)]
        (at("link"), "it is a link that leads nowhere"),
        #[cfg(unix)]
        ("/dev/null".into(), "it is no regular file"),
    ];
    for (path, expected) in table {
        let error = Fence::open(&path).unwrap_err();
        assert!(matches!(error, OpenError::BadPath { .. }), "{error}");
        assert!(error.to_string().contains(expected), "{path:?}: {error}");
    }
    assert_eq!(
        fs::read_dir(folder.path()).unwrap().count(),
        if cfg!(unix) { 2 } else { 1 }
    );
}

/// Opening the one may wait for ever, and a lock on the other may be one that nobody meets.
#[cfg(target_os = "linux")]
#[test]
fn a_lock_that_is_no_regular_file_is_refused_at_once_and_says_what_to_do() {
    use rustix::fs::{CWD, FileType, Mode, mknodat};

    let folder = tempdir().unwrap();
    let at = |name: &str| folder.path().join(name);
    let fifo = |name: &str| mknodat(CWD, at(name), FileType::Fifo, Mode::RUSR | Mode::WUSR, 0);
    fifo("pipe.mark").unwrap();
    fifo("a.mark.lock").unwrap();
    fs::create_dir(at("b.mark.lock")).unwrap();
    fs::write(at("other"), "").unwrap();
    for (name, target) in [
        ("c.mark.lock", at("other")),
        ("d.mark.lock", "/dev/null".into()),
    ] {
        std::os::unix::fs::symlink(target, at(name)).unwrap();
    }
    std::os::unix::fs::symlink(at("nowhere"), at("e.mark.lock")).unwrap();
    let before = fs::read_dir(folder.path()).unwrap().count();
    for name in ["a", "b", "c", "d", "e", "pipe"] {
        let path = at(&format!("{name}.mark"));
        let error = support::on_thread(move || Fence::open(path).unwrap_err()).join();
        assert!(matches!(error, OpenError::BadPath { .. }), "{error}");
        let (text, problem) = (error.to_string(), "no regular file");
        assert!(text.contains(problem), "{text}");
        let is_lock = text.contains(&format!("{name}.mark.lock")) && text.contains("remove it");
        assert_eq!(is_lock, name != "pipe", "{text}");
    }
    assert_eq!(fs::read_dir(folder.path()).unwrap().count(), before);
}

/// No permissions help against root, but nobody creates files in here.
#[cfg(target_os = "linux")]
#[test]
fn a_folder_that_cannot_be_written_is_refused_when_opening() {
    let error = Fence::open("/sys/orders.mark").unwrap_err();
    let source = error.source().expect("what the system said").to_string();
    let text = error.to_string();
    assert!(text.contains("cannot lock /sys/orders.mark.lock"), "{text}");
    assert!(
        !source.is_empty() && !text.contains(&source),
        "{text}: {source}"
    );
}

#[test]
fn a_mark_that_cannot_be_stored_admits_nothing_until_it_can() {
    let folder = tempdir().unwrap();
    let path = folder.path().join("orders.mark");
    let fence = Fence::open(&path).unwrap();
    let low = wait(fence.admit(5)).unwrap();
    // In the way of the file that each write begins with.
    let obstacle = folder.path().join("orders.mark.tmp");
    fs::create_dir(&obstacle).unwrap();
    for _ in 0..2 {
        let error = wait(fence.admit(6)).unwrap_err();
        let AdmitError::Storage(storage) = &error else {
            panic!("{error}");
        };
        assert!(storage.source().is_some());
        assert_eq!(fence.highest(), 6);
    }
    assert!(low.is_revoked());
    // Not even what was admitted before: it is stale by now.
    assert!(matches!(wait(fence.admit(5)), Err(AdmitError::Stale(_))));
    assert!(matches!(fence.reset(""), Err(ResetError::Storage(_))));
    fs::remove_dir(&obstacle).unwrap();
    drop(low);
    drop(wait(fence.admit(6)).unwrap());
    drop(fence);
    assert_eq!(Fence::open(&path).unwrap().highest(), 6);
}
