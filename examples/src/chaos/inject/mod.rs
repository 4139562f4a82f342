//! Makes one planned fault happen, and proves it.

mod etcd;
mod orders;
mod paths;
mod processes;

use std::io;
use std::time::Duration;

use tokio::time::Instant;

use super::arena::{Arena, Host, Leader};
use super::fault::Kind;
use super::network::{Network, Way};
use super::plan::Planned;
use super::timeline::{Proof, Record};
use super::witness::Witness;
use crate::etcd::EtcdLedger;

/// How long something may take that must come for a fault to happen, say a leader.
const SOON: Duration = Duration::from_secs(20);

/// How long an input is waited for that begins to be counted.
const INPUT: Duration = Duration::from_secs(3);

/// How often it is looked for.
const LOOK_EVERY: Duration = Duration::from_millis(20);

/// A fault that is under way.
struct Injection<'a> {
    arena: &'a mut Arena,
    witness: &'a Witness,
    planned: &'a Planned,
    began: Duration,
}

impl Arena {
    /// Makes a fault happen, and returns when it is over.
    ///
    /// # Errors
    ///
    /// Those of the tools; a fault that did not happen is none, it lacks its proof.
    ///
    /// # Cancel safety
    ///
    /// Dropped, the fault may last.
    pub async fn inject(&mut self, planned: &Planned, witness: &Witness) -> io::Result<Record> {
        let mut injection = Injection {
            began: witness.now(),
            arena: self,
            witness,
            planned,
        };
        let both = [Way::From, Way::To];
        let one = &both[planned.choice % 2..][..1];
        let (target, proof) = match planned.kind {
            Kind::KillLeader => injection.kill_leader().await?,
            Kind::KillWorker => injection.kill_worker().await?,
            Kind::FreezeLeader => injection.freeze_leader().await?,
            Kind::FreezeWorker => injection.freeze_worker().await?,
            Kind::RevokeLease => injection.revoke_lease().await?,
            Kind::DeleteKey => injection.delete_key().await?,
            Kind::RestartEtcd => injection.restart_etcd().await?,
            Kind::SlowDisk => injection.slow_disk().await?,
            Kind::CutLeader => injection.cut_leader(&both).await?,
            Kind::CutLeaderOneWay => injection.cut_leader(one).await?,
            Kind::CutWorker => injection.cut_worker(&[Network::Work], &both).await?,
            Kind::CutWorkerOneWay => injection.cut_worker(&[Network::Work], one).await?,
            Kind::VanishWorker => {
                let all = [Network::Etcd, Network::Work];
                injection.cut_worker(&all, &both).await?
            }
            Kind::MoveWorker => injection.move_worker().await?,
            Kind::LateName => injection.late_name().await?,
            Kind::LoseReply => injection.lose_reply().await?,
            Kind::HoldCommit => injection.hold_commit(false).await?,
            Kind::HoldCommitOfDead => injection.hold_commit(true).await?,
            Kind::LateOrders => injection.late_orders().await?,
        };
        Ok(Record {
            kind: planned.kind,
            target,
            began: injection.began,
            ended: witness.now(),
            proof,
            resumed: None,
        })
    }
}

impl Injection<'_> {
    /// Waits for who leads and runs. The fault begins now: it could not before.
    async fn leader(&mut self) -> io::Result<Option<Leader>> {
        let deadline = Instant::now() + SOON;
        loop {
            let leader = self.arena.leader(SOON).await?;
            let runs = leader.as_ref().is_some_and(|it| self.arena.runs(&it.name));
            if runs || Instant::now() >= deadline {
                self.began = self.witness.now();
                return Ok(leader.filter(|_| runs));
            }
            self.arena.tend_for(LOOK_EVERY).await?;
        }
    }

    /// Waits until the chosen worker runs: it may have been killed a moment ago.
    async fn worker(&mut self) -> io::Result<Host> {
        let workers = &self.arena.workers;
        let host = workers[self.planned.choice % workers.len()].clone();
        let deadline = Instant::now() + SOON;
        while !self.arena.runs(&host.name) && Instant::now() < deadline {
            self.arena.tend_for(LOOK_EVERY).await?;
        }
        self.began = self.witness.now();
        Ok(host)
    }

    /// Waits until the workers begin to count an input: what happens then happens in the
    /// middle of their work. Where they count all the time it happens at any time.
    async fn counting(&mut self) -> io::Result<()> {
        let deadline = Instant::now() + INPUT;
        let mut was_idle = false;
        while Instant::now() < deadline {
            match EtcdLedger::head(&self.arena.link, &self.arena.keys).await {
                Ok((head, _)) if head.deltas.is_empty() => was_idle = true,
                Ok(_) if was_idle => break,
                _ => {}
            }
            self.arena.tend_for(LOOK_EVERY).await?;
        }
        self.began = self.witness.now();
        Ok(())
    }
}

/// The fault of a leader that nobody is.
fn nobody() -> (String, Proof) {
    ("nobody".to_owned(), Proof::new(0, "leaders"))
}
