//! Hunts a mark that a crash lowers or forgets (F07).
//!
//! The test runs itself as a child that raises the mark as fast as it can and says
//! each token once it is admitted. The parent kills it and looks at what is left.
#![cfg(unix)]
#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

mod support;

use std::env;
use std::io::{BufRead, BufReader, Write};
use std::os::unix::process::ExitStatusExt;
use std::path::Path;
use std::process::{Child, ChildStdout, Command, Stdio};
use std::time::Duration;

use fencing::{AdmitError, Fence, boot_time};
use support::wait;
use tempfile::tempdir;

const KILLS: u32 = 100;
const PATH: &str = "FENCING_TEST_MARK";
const ADMITTED: &str = "admitted ";

/// Only does something in the child.
#[test]
fn child_that_raises_the_mark() {
    let Some(path) = env::var_os(PATH) else {
        return;
    };
    let fence = Fence::open(path).unwrap();
    let mut out = std::io::stdout();
    for token in fence.highest() + 1.. {
        let admission = fence.admit_blocking(token).unwrap();
        // The start of the line is the harness's.
        writeln!(out, "\n{ADMITTED}{token}").unwrap();
        drop(admission);
    }
}

struct Raiser {
    child: Child,
    out: BufReader<ChildStdout>,
}

impl Raiser {
    fn start(path: &Path) -> Self {
        let mut child = Command::new(env::current_exe().unwrap())
            .args(["--exact", "child_that_raises_the_mark", "--nocapture"])
            .env(PATH, path)
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let out = BufReader::new(child.stdout.take().unwrap());
        Self { child, out }
    }

    /// The next token that the child says was admitted, none after its end.
    fn next(&mut self) -> Option<u64> {
        let mut line = String::new();
        while self.out.read_line(&mut line).unwrap() > 0 {
            // A line that the kill has cut was not said.
            let token = line
                .strip_prefix(ADMITTED)
                .and_then(|rest| rest.strip_suffix('\n'));
            if let Some(token) = token {
                return Some(token.parse().unwrap());
            }
            line.clear();
        }
        None
    }

    /// Kills the child and returns what it said before, and by what it ended.
    fn kill(&mut self) -> (Option<u64>, Option<i32>) {
        self.child.kill().unwrap();
        let mut last = None;
        while let Some(token) = self.next() {
            last = Some(token);
        }
        (last, self.child.wait().unwrap().signal())
    }
}

impl Drop for Raiser {
    /// A test that fails leaves no child behind.
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

#[test]
fn no_kill_lowers_the_mark_or_forgets_an_admitted_token() {
    let folder = tempdir().unwrap();
    let path = folder.path().join("orders.mark");
    let temporary = folder.path().join("orders.mark.tmp");
    let (mut mark, mut killed, mut torn) = (0, 0, 0);
    for round in 0..KILLS {
        let mut child = Raiser::start(&path);
        let mut admitted = child.next().expect("the child admits a token");
        // Varies the moment within a write, over the length of some writes.
        let moment = boot_time() + Duration::from_micros(u64::from(round * 7919 % 12_000));
        while boot_time() < moment {
            std::hint::spin_loop();
        }
        let (last, signal) = child.kill();
        assert_eq!(signal, Some(9), "the child must die by the kill alone");
        killed += 1;
        admitted = last.unwrap_or(admitted);
        torn += u32::from(temporary.exists());

        let fence = Fence::open(&path).unwrap();
        let found = fence.highest();
        assert!(found >= mark, "the mark fell from {mark} to {found}");
        assert!(
            found >= admitted,
            "{admitted} was admitted, {found} is the mark"
        );
        let stale = wait(fence.admit(admitted - 1));
        assert!(admitted == 1 || matches!(stale, Err(AdmitError::Stale(_))));
        mark = found;
    }
    println!("CASE F07 fault={killed}");
    assert_eq!(killed, KILLS);
    assert!(torn > 0, "no kill has hit the middle of a write");
    println!("{torn} of {killed} kills hit the middle of a write; the mark is {mark}");
}

/// The case by its numbers: 9 is stored, the kill comes somewhere in storing 10.
#[test]
fn what_is_stored_or_admitted_decides_after_a_restart() {
    for kill_after in [9, 10] {
        let folder = tempdir().unwrap();
        let path = folder.path().join("orders.mark");
        drop(wait(Fence::open(&path).unwrap().admit(8)).unwrap());
        let mut child = Raiser::start(&path);
        while child.next() != Some(kill_after) {}
        let (last, signal) = child.kill();
        assert_eq!(signal, Some(9));
        let fence = Fence::open(&path).unwrap();
        assert!(matches!(wait(fence.admit(8)), Err(AdmitError::Stale(_))));
        let admitted = last.unwrap_or(kill_after);
        let lower = wait(fence.admit(admitted - 1));
        assert!(matches!(lower, Err(AdmitError::Stale(_))));
        drop(wait(fence.admit(fence.highest())).unwrap());
    }
}

#[test]
fn a_fence_in_memory_forgets() {
    drop(wait(Fence::new().admit(9)).unwrap());
    drop(wait(Fence::default().admit(1)).unwrap());
}
