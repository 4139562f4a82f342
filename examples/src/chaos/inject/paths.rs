//! What happens on the way: cuts, addresses, names, commits that come late.

use std::io;
use std::time::Duration;

use tokio::time::Instant;

use super::processes::kill;
use super::{Injection, LOOK_EVERY, SOON, nobody};
use crate::chaos::arena::LATE;
use crate::chaos::network::{Network, Way};
use crate::chaos::proxy::{Proxy, Trap};
use crate::chaos::timeline::Proof;
use crate::etcd::{EtcdLedger, Keys, Link};

/// How often a fault is tried that a busy machine can spoil.
const TRIES: u32 = 3;

/// How long etcd may take to answer.
const ANSWER: Duration = Duration::from_secs(5);

impl Injection<'_> {
    pub(super) async fn cut_leader(&mut self, ways: &[Way]) -> io::Result<(String, Proof)> {
        let Some(leader) = self.leader().await? else {
            return Ok(nobody());
        };
        self.cut(leader.name, &[Network::Etcd], ways).await
    }

    pub(super) async fn cut_worker(
        &mut self,
        networks: &[Network],
        ways: &[Way],
    ) -> io::Result<(String, Proof)> {
        let host = self.worker().await?;
        self.counting().await?;
        self.cut(host.name, networks, ways).await
    }

    /// Cuts a host off for the planned time.
    async fn cut(
        &mut self,
        host: String,
        networks: &[Network],
        ways: &[Way],
    ) -> io::Result<(String, Proof)> {
        let each = || networks.iter().flat_map(|n| ways.iter().map(|w| (*n, *w)));
        for (network, way) in each() {
            self.arena.networks.cut(&host, network, way)?;
        }
        self.arena.tend_for(self.planned.hold).await?;
        let deadline = Instant::now() + SOON;
        let vanished = loop {
            let mut vanished = 0;
            for (network, way) in each() {
                vanished += self.arena.networks.vanished(&host, network, way)?;
            }
            // A worker that has nothing to do says nothing for some seconds.
            if vanished > 0 || Instant::now() >= deadline {
                break vanished;
            }
            self.arena.tend_for(LOOK_EVERY).await?;
        };
        for (network, way) in each() {
            self.arena.networks.mend(&host, network, way)?;
        }
        Ok((host, Proof::new(vanished, "packets vanished")))
    }

    /// The worker ends, and comes back at another address of which etcd knows.
    pub(super) async fn move_worker(&mut self) -> io::Result<(String, Proof)> {
        let at = self.planned.choice % self.arena.workers.len();
        let mut host = self.arena.workers[at].clone();
        let old = host.number;
        // Two addresses take turns.
        host.number ^= 64;
        self.arena.fleet.remove(&host.name);
        self.arena
            .networks
            .move_host(&host.name, old, host.number)?;
        self.arena.workers[at] = host.clone();
        self.arena.start_worker(&host)?;
        let address = format!("address 10.78.0.{}:", host.number);
        let name = host.name.clone();
        let ask = |link, keys: Keys| registered(link, keys.worker(&name), address.clone());
        let found = self.arena.tend_until(SOON, ask).await?;
        let what = format!("entries with the new address {}", host.number);
        Ok((host.name, Proof::new(u64::from(found.is_some()), what)))
    }

    /// A worker that is registered for a while before its name resolves.
    pub(super) async fn late_name(&mut self) -> io::Result<(String, Proof)> {
        let name = format!("late-{}.test", self.began.as_millis());
        self.arena.fleet.remove(LATE);
        self.arena.start_late_worker(&name)?;
        let address = format!("address {name}:");
        let ask = |link, keys: Keys| registered(link, keys.worker(LATE), address.clone());
        let found = self.arena.tend_until(SOON, ask).await?;
        self.arena.tend_for(self.planned.hold).await?;
        let unresolved = tokio::net::lookup_host((&*name, 1)).await.is_err();
        self.arena.add_late_name(&name)?;
        let what = "names that did not resolve while their worker was registered";
        let count = u64::from(unresolved && found.is_some());
        Ok((LATE.to_owned(), Proof::new(count, what)))
    }

    /// The next commit lands, and its answer is lost.
    pub(super) async fn lose_reply(&mut self) -> io::Result<(String, Proof)> {
        let mut revision = None;
        for _ in 0..TRIES {
            revision = self.lose_one().await?;
            if revision.is_some() {
                break;
            }
        }
        let at = revision.map_or_else(String::new, |at| format!(" at revision {at}"));
        let what = format!("commits landed{at} whose answer was lost");
        let proof = Proof::new(u64::from(revision.is_some()), what);
        Ok(("etcd".to_owned(), proof))
    }

    /// Returns the revision at which a commit landed whose answer was lost, if it was seen
    /// before the leader could make another attempt.
    async fn lose_one(&mut self) -> io::Result<Option<i64>> {
        let (lost, made) = (self.arena.proxy.lost(), self.arena.proxy.commits());
        self.spring(Trap::LoseReply, None).await?;
        // It is in the trap: this is what it will replace.
        let before = head(self.arena.link.clone(), self.arena.keys.clone()).await;
        let passed = self.arena.proxy.commits();
        self.arena.proxy.release();
        let ask =
            |link, keys| async move { head(link, keys).await.filter(|now| Some(*now) > before) };
        let landed = self.arena.tend_until(ANSWER, ask).await?;
        let is_alone = passed > made && self.arena.proxy.commits() == passed;
        self.tend_while(ANSWER, |proxy| proxy.lost() == lost)
            .await?;
        let is_lost = self.arena.proxy.lost() > lost;
        Ok(landed.filter(|_| before.is_some() && is_alone && is_lost))
    }

    /// The next commit arrives after those that follow it, or after its leader's death.
    pub(super) async fn hold_commit(&mut self, kills: bool) -> io::Result<(String, Proof)> {
        let Some(leader) = self.leader().await? else {
            return Ok(nobody());
        };
        let answered = self.arena.proxy.answered();
        self.spring(Trap::Hold, Some(&leader.key)).await?;
        if kills {
            kill(self.arena, &leader.name);
        }
        let before = head(self.arena.link.clone(), self.arena.keys.clone()).await;
        self.arena.tend_for(self.planned.hold).await?;
        let ask =
            |link, keys| async move { head(link, keys).await.filter(|now| Some(*now) > before) };
        // Released once the loop has gone on without it.
        self.arena.tend_until(SOON, ask).await?;
        self.arena.proxy.release();
        self.tend_while(ANSWER, |proxy| proxy.answered() == answered)
            .await?;
        let said = self.arena.proxy.answered() - answered;
        let what = "answers to a commit that came late";
        Ok((leader.name, Proof::new(said, what)))
    }

    /// Waits until a commit, of the leader with this key if one is given, has gone into the
    /// trap.
    pub(super) async fn spring(&mut self, trap: Trap, key: Option<&[u8]>) -> io::Result<()> {
        let before = self.arena.proxy.trapped();
        self.arena.proxy.set(trap, key);
        self.tend_while(SOON, |proxy| proxy.trapped() == before)
            .await?;
        self.arena.proxy.set(Trap::Open, None);
        Ok(())
    }

    /// Starts again who has ended, while that holds of the proxy, at most so long.
    async fn tend_while(
        &mut self,
        most: Duration,
        holds: impl Fn(&Proxy) -> bool,
    ) -> io::Result<()> {
        let deadline = Instant::now() + most;
        while holds(&self.arena.proxy) && Instant::now() < deadline {
            self.arena.tend_for(LOOK_EVERY).await?;
        }
        Ok(())
    }
}

async fn registered(link: Link, key: String, address: String) -> Option<()> {
    let read = link.call(|mut client| async move { client.get(key, None).await });
    let read = read.await.ok()?;
    let entry = read.kvs().first()?.value_str().ok()?;
    entry
        .lines()
        .any(|line| line.starts_with(&address))
        .then_some(())
}

/// Returns the revision of the last commit.
async fn head(link: Link, keys: Keys) -> Option<i64> {
    let head = EtcdLedger::head(&link, &keys).await.ok()?;
    Some(head.1)
}
