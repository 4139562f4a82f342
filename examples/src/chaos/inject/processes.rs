//! Processes that are killed or stopped.

use std::io;
use std::os::unix::process::ExitStatusExt;
use std::time::Duration;

use rustix::process::Signal;

use super::{Injection, nobody};
use crate::chaos::arena::Arena;
use crate::chaos::proxy::Trap;
use crate::chaos::timeline::Proof;

/// How long the kernel may take to stop each thread of a process.
const STOPPED_WITHIN: Duration = Duration::from_secs(2);

impl Injection<'_> {
    pub(super) async fn kill_leader(&mut self) -> io::Result<(String, Proof)> {
        let Some(leader) = self.leader().await? else {
            return Ok(nobody());
        };
        let proof = kill(self.arena, &leader.name);
        Ok((leader.name, proof))
    }

    pub(super) async fn kill_worker(&mut self) -> io::Result<(String, Proof)> {
        let host = self.worker().await?;
        let proof = kill(self.arena, &host.name);
        Ok((host.name, proof))
    }

    /// A leader that stands still beyond its lease, in the middle of a commit: the kernel
    /// ends it meanwhile.
    pub(super) async fn freeze_leader(&mut self) -> io::Result<(String, Proof)> {
        self.spring(Trap::LoseReply, None).await?;
        let Some(leader) = self.leader().await? else {
            self.arena.proxy.release();
            return Ok(nobody());
        };
        self.signal(&leader.name, Signal::STOP);
        self.arena.proxy.release();
        let stopped = self.freeze(&leader.name).await?;
        // Once it goes on it must have ended, or end now.
        self.arena.tend_for(Duration::from_millis(200)).await?;
        let ended = self.arena.fleet.end_of(&leader.name);
        let how = match ended {
            Some(status) => format!("threads stopped, then {status}"),
            None => "threads stopped".to_owned(),
        };
        Ok((leader.name, Proof::new(stopped, how)))
    }

    pub(super) async fn freeze_worker(&mut self) -> io::Result<(String, Proof)> {
        let host = self.worker().await?;
        let stopped = self.freeze(&host.name).await?;
        Ok((host.name, Proof::new(stopped, "threads stopped")))
    }

    /// Stops a process for the planned time; returns how many threads stood still.
    async fn freeze(&mut self, name: &str) -> io::Result<u64> {
        let Some(process) = self.arena.fleet.member(name) else {
            return Ok(0);
        };
        process.signal(Signal::STOP);
        let pid = process.id();
        let wait = |_, _| async move { (stopped_threads(pid) > 0).then_some(()) };
        self.arena.tend_until(STOPPED_WITHIN, wait).await?;
        let stopped = stopped_threads(pid);
        self.arena.tend_for(self.planned.hold).await?;
        // A process that was started in its place meanwhile goes on as it is.
        self.signal(name, Signal::CONT);
        Ok(stopped)
    }

    fn signal(&mut self, name: &str, signal: Signal) {
        if let Some(process) = self.arena.fleet.member(name) {
            process.signal(signal);
        }
    }
}

/// Kills a process; the proof is how it ended, as its parent is told.
pub(super) fn kill(arena: &mut Arena, name: &str) -> Proof {
    let Some(process) = arena.fleet.member(name) else {
        return Proof::new(0, "processes of that name");
    };
    // One that had ended before was not killed.
    let ran = process.ended().is_none();
    process.kill();
    let killed = process.ended().and_then(|status| status.signal()) == Some(9);
    Proof::new(u64::from(ran && killed), "killed by signal 9")
}

/// Returns how many threads of a process are stopped, as the kernel says.
fn stopped_threads(pid: u32) -> u64 {
    let Ok(tasks) = std::fs::read_dir(format!("/proc/{pid}/task")) else {
        return 0;
    };
    let states = tasks.filter_map(|task| {
        let stat = std::fs::read_to_string(task.ok()?.path().join("stat")).ok()?;
        // The name, which may hold anything, ends with the last parenthesis.
        Some(stat.rsplit(") ").next()?.starts_with('T'))
    });
    states.filter(|is_stopped| *is_stopped).count() as u64
}
