//! Orders of a leader that come after those of the next one.

use std::io;
use std::time::Duration;

use super::{INPUT, Injection, SOON, nobody};
use crate::chaos::network::{Network, Way};
use crate::chaos::timeline::Proof;
use crate::etcd::{EtcdLedger, Keys, Link};

/// The next barrier comes within this time while workers count.
const BARRIER: Duration = Duration::from_millis(100);

/// What is cut: the leader does not hear that it has lost.
const DEAF: [(Network, Way); 2] = [(Network::Etcd, Way::From), (Network::Etcd, Way::To)];

impl Injection<'_> {
    /// Holds up what the leader sends to its workers, lets another lead meanwhile, and then
    /// lets it pass: by then the workers have written for the next term.
    pub(super) async fn late_orders(&mut self) -> io::Result<(String, Proof)> {
        self.counting().await?;
        let Some(leader) = self.leader().await? else {
            return Ok(nobody());
        };
        let name = &leader.name;
        self.arena.networks.cut(name, Network::Work, Way::From)?;
        // By then a barrier is under way, and it waits for answers: it commits no more.
        self.arena.tend_for(BARRIER).await?;
        for (network, way) in DEAF {
            self.arena.networks.cut(name, network, way)?;
        }
        let is_revoked = self.revoke(&leader).await;
        let has_passed = self.await_next(leader.token).await?;
        let networks = &self.arena.networks;
        let held = networks.vanished(name, Network::Work, Way::From)?;
        networks.mend(name, Network::Work, Way::From)?;
        self.arena.tend_for(self.planned.hold).await?;
        for (network, way) in DEAF {
            self.arena.networks.mend(name, network, way)?;
        }
        let count = if is_revoked && has_passed { held } else { 0 };
        let what = "packets to workers held up until the next leader had committed";
        Ok((leader.name, Proof::new(count, what)))
    }

    /// Waits until a later leader has committed, with a snapshot if one comes in time.
    async fn await_next(&mut self, token: u64) -> io::Result<bool> {
        let counted = |link, keys| next_commit(link, keys, token, true);
        if self.arena.tend_until(INPUT, counted).await?.is_some() {
            return Ok(true);
        }
        let any = |link, keys| next_commit(link, keys, token, false);
        Ok(self.arena.tend_until(SOON, any).await?.is_some())
    }
}

async fn next_commit(link: Link, keys: Keys, token: u64, counted: bool) -> Option<()> {
    let (head, _) = EtcdLedger::head(&link, &keys).await.ok()?;
    let is_next = head.id().term > token && !(counted && head.deltas.is_empty());
    is_next.then_some(())
}
