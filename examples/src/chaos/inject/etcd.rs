//! What happens to etcd, or to a leader in it.

use std::io;
use std::os::unix::process::ExitStatusExt;
use std::path::Path;
use std::time::Duration;

use rustix::process::Signal;

use super::{Injection, nobody};
use crate::chaos::arena::Leader;
use crate::chaos::timeline::Proof;
use crate::cluster::Program;

/// How long each `fdatasync` is delayed, microseconds.
const DELAY_US: u32 = 300_000;

/// How long strace may take to let go of etcd.
const DETACH: Duration = Duration::from_secs(5);

impl Injection<'_> {
    pub(super) async fn revoke_lease(&mut self) -> io::Result<(String, Proof)> {
        let Some(leader) = self.leader().await? else {
            return Ok(nobody());
        };
        let count = u64::from(self.revoke(&leader).await);
        Ok((leader.name, Proof::new(count, "leases revoked by etcd")))
    }

    /// Takes the leadership away; says whether etcd did.
    pub(super) async fn revoke(&mut self, leader: &Leader) -> bool {
        self.witness.takes(leader.token);
        let lease = leader.lease;
        let revoked = self
            .arena
            .link
            .call(|mut client| async move { client.lease_revoke(lease).await });
        revoked.await.is_ok()
    }

    pub(super) async fn delete_key(&mut self) -> io::Result<(String, Proof)> {
        let Some(leader) = self.leader().await? else {
            return Ok(nobody());
        };
        self.witness.takes(leader.token);
        let key = leader.key;
        let deleted = self
            .arena
            .link
            .call(|mut client| async move { client.delete(key, None).await });
        let count = deleted.await.map_or(0, |deleted| deleted.deleted());
        let count = u64::try_from(count).unwrap_or(0);
        Ok((leader.name, Proof::new(count, "keys deleted by etcd")))
    }

    pub(super) async fn restart_etcd(&mut self) -> io::Result<(String, Proof)> {
        let process = self.arena.etcd.process();
        process.kill();
        let killed = process.ended().and_then(|status| status.signal()) == Some(9);
        self.arena.etcd.restart().await?;
        let proof = Proof::new(u64::from(killed), "killed by signal 9");
        Ok(("etcd".to_owned(), proof))
    }

    pub(super) async fn slow_disk(&mut self) -> io::Result<(String, Proof)> {
        let pid = self.arena.etcd.process().id().to_string();
        let log = self.arena.logs.join("fdatasync");
        let inject = format!("inject=fdatasync:delay_enter={DELAY_US}");
        let shown = log.display().to_string();
        let args = [
            "-f",
            "-p",
            &pid,
            "-e",
            "trace=fdatasync",
            "-e",
            &inject,
            "-o",
            &shown,
        ];
        let strace = Program::new("strace", Path::new("strace"), args, &self.arena.logs);
        let mut strace = strace.start()?;
        self.arena.tend_for(self.planned.hold).await?;
        strace.signal(Signal::INT);
        if strace.wait(DETACH).await.is_none() {
            strace.kill();
        }
        let log = std::fs::read_to_string(log).unwrap_or_default();
        let delayed = log
            .lines()
            .filter(|line| line.contains("(DELAYED)"))
            .count();
        Ok((
            "etcd".to_owned(),
            Proof::new(delayed as u64, "fdatasync delayed"),
        ))
    }
}
