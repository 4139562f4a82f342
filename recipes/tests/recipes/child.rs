//! This test program, started again as a process of its own.

use std::io::{BufRead, BufReader, Write};
use std::os::unix::process::ExitStatusExt;
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};

/// Marks what a child says to the test, beside what the test program itself prints.
const MARK: &str = "@child ";

/// A running child; killed on drop.
pub(crate) struct Process {
    pub(crate) child: Child,
    pub(crate) input: Option<ChildStdin>,
    pub(crate) output: Option<BufReader<ChildStdout>>,
}

// ===== impl Process =====

impl Process {
    /// Starts the test of this name with these variables, behind `before`, say a tracer.
    pub(crate) fn start(test: &str, variables: &[(&str, &str)], before: &[&str]) -> Self {
        let program = std::env::current_exe().unwrap();
        let mut words = before
            .iter()
            .map(AsRef::as_ref)
            .chain([program.as_os_str()]);
        let mut command = Command::new(words.next().expect("a program"));
        let mut child = command
            .args(words)
            .args([test, "--exact", "--ignored", "--nocapture"])
            .args(["--test-threads", "1"])
            .envs(variables.iter().copied())
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap_or_else(|error| {
                panic!("{before:?} cannot be run ({error}): install the package of that name")
            });
        let (input, output) = (child.stdin.take(), child.stdout.take().map(BufReader::new));
        Self {
            child,
            input,
            output,
        }
    }

    /// Waits for what it says next; `None` at its end.
    pub(crate) fn hear(&mut self) -> Option<String> {
        hear(self.output.as_mut().expect("not taken"))
    }

    /// Kills it; returns the number of the signal that ended it.
    pub(crate) fn kill(&mut self) -> Option<i32> {
        let _ = self.child.kill();
        self.child.wait().unwrap().signal()
    }

    pub(crate) fn signal(&self, name: &str) {
        let status = Command::new("kill")
            .args([format!("-{name}"), self.child.id().to_string()])
            .status();
        assert!(status.expect("kill runs").success());
    }

    /// Reads from the kernel how many of its threads are stopped.
    pub(crate) fn stopped_threads(&self) -> u64 {
        let tasks = std::fs::read_dir(format!("/proc/{}/task", self.child.id()));
        let states = tasks.expect("it runs").filter_map(|task| {
            let stat = std::fs::read_to_string(task.ok()?.path().join("stat")).ok()?;
            // The name, which may hold anything, ends with the last parenthesis.
            Some(stat.rsplit(") ").next()?.starts_with('T'))
        });
        states.filter(|is_stopped| *is_stopped).count() as u64
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        self.kill();
    }
}

pub(crate) fn hear(output: &mut impl BufRead) -> Option<String> {
    loop {
        let mut line = String::new();
        if output.read_line(&mut line).unwrap() == 0 {
            return None;
        }
        if let Some((_, words)) = line.trim_end().split_once(MARK) {
            return Some(words.to_owned());
        }
    }
}

/// One write for each line, so that a kill leaves no half of one.
pub(crate) fn say(words: &str) {
    let line = format!("{MARK}{words}\n");
    let mut output = std::io::stdout().lock();
    let said = output
        .write_all(line.as_bytes())
        .and_then(|()| output.flush());
    // Nobody listens any more when the test has ended.
    drop(said);
}
