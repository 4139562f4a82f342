//! Hunts a crash between two system calls of a raise after which a token below one that
//! was admitted is accepted.
//!
//! The test runs itself as a child that opens a fence and waits. Then strace is attached.
//! A first child is only listened to, which gives the calls on files of the thread that
//! stores the mark; then one child is killed at each of them, as it is entered. strace counts
//! by thread and by kind of call, so each is named by its kind and its number.

use std::io::{BufRead, BufReader, Write};
use std::os::unix::process::ExitStatusExt;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::{env, fs};

use fencing::{AdmitError, Fence};
use tempfile::tempdir;

use crate::support::{until, wait};

const PATH: &str = "FENCING_TEST_MARK";
const ADMITTED: &str = "admitted";
const OPEN: &str = "open";
const OLD: u64 = 5;
const NEW: u64 = 9;
/// What the thread that stores the mark does and no other.
const RENAME: &str = "rename";
/// Beginnings of the names of calls on files. The other threads make none of these between
/// the attachment and the admission; of others, such as those on memory, they do, also
/// when a blocked call is begun anew because strace was attached.
const ON_FILES: [&str; 12] = [
    "stat",
    "newfstat",
    "fstat",
    "lstat",
    "unlink",
    "open",
    "write",
    "fsync",
    "fdatasync",
    "fcntl",
    "close",
    "rename",
];

/// A system call of the storing thread: its name, and how many like it came before.
struct Call {
    name: String,
    before: usize,
}

/// Only does something in the child.
#[test]
fn child_that_raises_once() {
    let Some(path) = env::var_os(PATH) else {
        return;
    };
    let fence = Fence::open(path).unwrap();
    // The start of the line is the harness's.
    println!("\n{OPEN}");
    let mut line = String::new();
    std::io::stdin().read_line(&mut line).unwrap();
    let admission = fence.admit_blocking(NEW).unwrap();
    println!("\n{ADMITTED}");
    // Leaves at once: whatever an exit does, strace would count it.
    std::io::stdin().read_line(&mut line).unwrap();
    drop(admission);
}

/// Ended when the test fails.
struct Running(Child);

impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// Traces all threads of the child into a file, and kills it at one call.
fn strace(child: &Child, trace: &Path, kill_at: Option<&Call>) -> Running {
    let mut strace = Command::new("strace");
    strace.args(["-f", "-qq", "-o"]).arg(trace);
    if let Some(Call { name, before }) = kill_at {
        let when = before + 1;
        strace.args(["-e", &format!("inject={name}:signal=KILL:when={when}")]);
    }
    strace
        .args(["-p", &child.id().to_string()])
        .stdin(Stdio::null())
        .spawn()
        .map(Running)
        .expect("strace is missing: install the package strace")
}

/// The calls on files of the thread that renames, in order.
fn calls(trace: &str) -> Vec<Call> {
    let lines = || {
        trace.lines().filter_map(|line| {
            let (thread, call) = line.split_once(' ')?;
            let (name, _) = call.trim_start().split_once('(')?;
            let is_name = name
                .bytes()
                .all(|byte| byte.is_ascii_alphanumeric() || byte == b'_');
            is_name.then_some((thread, name))
        })
    };
    let (worker, _) = lines().find(|(_, name)| name.starts_with(RENAME)).unwrap();
    let mut calls: Vec<Call> = Vec::new();
    let is_on_files = |name: &str| ON_FILES.iter().any(|start| name.starts_with(start));
    for (_, name) in lines().filter(|(thread, name)| *thread == worker && is_on_files(name)) {
        let before = calls.iter().filter(|call| call.name == name).count();
        let name = name.to_owned();
        calls.push(Call { name, before });
    }
    calls
}

/// Says whether all threads of the child are traced: they stop for no one else.
fn is_traced(child: &Child) -> bool {
    let tasks = fs::read_dir(format!("/proc/{}/task", child.id())).unwrap();
    tasks.flatten().all(|task| {
        let status = fs::read_to_string(task.path().join("status")).unwrap_or_default();
        let tracer = status.lines().find(|line| line.starts_with("TracerPid:"));
        tracer.is_some_and(|line| !line.ends_with("\t0"))
    })
}

/// Lets a child raise the mark, and says whether it was admitted before its end.
fn run(path: &Path, trace: &Path, kill_at: Option<&Call>) -> bool {
    let mut child = Command::new(env::current_exe().unwrap())
        .args(["--exact", "crashed_raise::child_that_raises_once"])
        .args(["--nocapture", "--test-threads=1"])
        .env(PATH, path)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .map(Running)
        .unwrap();
    let mut said = BufReader::new(child.0.stdout.take().unwrap()).lines();
    let mut hears = |word: &str| said.by_ref().flatten().any(|line| line == word);
    assert!(hears(OPEN), "the child opens its fence");
    let mut strace = strace(&child.0, trace, kill_at);
    until("strace is attached", || {
        assert!(child.0.try_wait().unwrap().is_none(), "killed too early");
        is_traced(&child.0)
    });
    writeln!(child.0.stdin.as_ref().unwrap(), "go").unwrap();
    let has_admitted = hears(ADMITTED);
    if has_admitted {
        child.0.kill().unwrap();
    }
    let status = child.0.wait().unwrap();
    assert_eq!(status.signal(), Some(9), "ended by nothing but a kill");
    // It ends with what it traces, and its file is complete then.
    strace.0.wait().unwrap();
    has_admitted
}

/// A child that is killed at a call, and what is left of the mark.
fn crash(kill_at: &Call) -> (bool, u64) {
    let what = format!("{} number {}", kill_at.name, kill_at.before + 1);
    let folder = tempdir().unwrap();
    let path = folder.path().join("orders.mark");
    drop(wait(Fence::open(&path).unwrap().admit(OLD)).unwrap());
    let has_admitted = run(&path, &folder.path().join("trace"), Some(kill_at));

    let fence = Fence::open(&path).unwrap();
    let highest = fence.highest();
    assert!([OLD, NEW].contains(&highest), "{what}: {highest}");
    assert!(highest == NEW || !has_admitted, "{what}: forgotten");
    let lower = wait(fence.admit(highest - 1));
    assert!(matches!(lower, Err(AdmitError::Stale(_))), "{what}");
    // Whatever the crash left behind is in nobody's way.
    drop(wait(fence.admit(NEW)).unwrap());
    (has_admitted, highest)
}

#[test]
fn no_crash_at_any_call_of_a_raise_lowers_what_is_refused() {
    let folder = tempdir().unwrap();
    let (path, trace) = (
        folder.path().join("orders.mark"),
        folder.path().join("trace"),
    );
    drop(wait(Fence::open(&path).unwrap().admit(OLD)).unwrap());
    assert!(run(&path, &trace, None), "nothing kills the first child");
    let calls = calls(&fs::read_to_string(&trace).unwrap());

    let (mut killed, mut raised) = (0, 0);
    for call in &calls {
        let (has_admitted, highest) = crash(call);
        assert!(!has_admitted, "{} was to kill", call.name);
        killed += 1;
        raised += u32::from(highest == NEW);
    }
    let names: Vec<_> = calls.iter().map(|call| &*call.name).collect();
    println!("CASE F07 fault={killed}");
    println!("the new mark was left {raised} times; {}", names.join(" "));
    assert!(killed >= 10, "a raise makes more calls: {names:?}");
    assert!(raised > 0 && raised < killed, "the kills miss the rename");
}
