//! Candidates as processes: this program again, or `etcdctl elect`.

use std::{
    io::{BufRead, BufReader, Write},
    process::{Child, ChildStdin, ChildStdout, Command, Stdio},
};

use benches::Etcd;

/// Whose candidate.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    Ours,
    Etcdctl,
}

/// A candidate; killed on drop.
pub(crate) struct Candidate {
    kind: Kind,
    child: Child,
    input: ChildStdin,
    output: BufReader<ChildStdout>,
}

// ===== impl Candidate =====

impl Candidate {
    /// Starts one that campaigns; the TTL of `etcdctl` is 60 s, whatever is asked for.
    pub(crate) fn start(kind: Kind, etcd: &Etcd, name: &str, ttl: u64) -> Self {
        let mut command = match kind {
            Kind::Ours => {
                let program = std::env::current_exe().expect("a program knows its file");
                let mut command = Command::new(program);
                command.args(["candidate", &etcd.endpoint(), name, &ttl.to_string()]);
                command
            }
            Kind::Etcdctl => {
                let program = std::env::var_os("ETCDCTL").unwrap_or_else(|| "etcdctl".into());
                let mut command = Command::new(program);
                command.env("ETCDCTL_API", "3");
                command.args(["--endpoints", &etcd.endpoint(), "elect", name, "bench"]);
                command
            }
        };
        let command = command
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::null());
        let mut child = command.spawn().unwrap_or_else(|error| {
            panic!("{kind:?} cannot be run ({error}): install etcd-client, or set ETCDCTL")
        });
        let input = child.stdin.take().expect("it is piped");
        let output = BufReader::new(child.stdout.take().expect("it is piped"));
        Self {
            kind,
            child,
            input,
            output,
        }
    }

    /// Waits, on a thread that may block, until it says that it leads.
    pub(crate) fn leads(&mut self) {
        let mut line = String::new();
        let read = self.output.read_line(&mut line).expect("it writes text");
        assert!(read > 0, "a candidate of {:?} has ended", self.kind);
    }

    /// Orders it to resign.
    pub(crate) fn resign(&mut self) {
        match self.kind {
            Kind::Ours => writeln!(self.input).expect("it reads"),
            Kind::Etcdctl => self.interrupt(),
        }
    }

    pub(crate) fn kill(&mut self) {
        self.child.kill().expect("an own child");
    }

    fn interrupt(&self) {
        let id = i32::try_from(self.child.id()).ok();
        let pid = id.and_then(rustix::process::Pid::from_raw);
        let pid = pid.expect("a process has an id");
        rustix::process::kill_process(pid, rustix::process::Signal::INT).expect("an own child");
    }
}

impl Drop for Candidate {
    fn drop(&mut self) {
        // It may have ended by itself.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
