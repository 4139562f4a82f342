//! A worker's entry in the registry: kept alive under a lease of its own.
//!
//! The entry of the newest life of a worker stays: a life that begins replaces what it
//! finds, one that goes on only puts back what is missing. The end of an older life takes
//! nothing away, since the entry lives under the lease of the newer one by then. In an etcd
//! that went back to an older state, the entry of an older life may be there again: it is
//! known by its revision, and replaced.

use std::fmt;
use std::str::FromStr;
use std::time::Duration;

use etcd_client::{
    Compare, CompareOp, LeaseGrantOptions, PutOptions, ResponseHeader, Txn, TxnOp, TxnResponse,
};
use tonic::transport::Endpoint;

use super::keys::Keys;
use super::link::{Link, Unreachable, reads};
use crate::roster::Place;

/// Pause before a failed step is tried again.
const AGAIN: Duration = Duration::from_millis(200);

/// How long the withdrawal at the end may take.
const WITHDRAW: Duration = Duration::from_millis(500);

/// What a worker's key holds: a line for each field.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Entry {
    address: String,
    incarnation: u64,
    slots: usize,
}

/// A worker that keeps itself registered.
#[derive(Debug)]
pub struct Registration {
    link: Link,
    key: String,
    ttl: Duration,
    entry: Entry,
    /// Its first lease: unlike that of any other life in this etcd.
    lease: i64,
    /// The revision of etcd at which the entry was written last, zero before: from then
    /// on a younger life is not replaced.
    written_at: i64,
}

/// Why a registration ended by itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Ended {
    /// A younger life of the same worker has registered.
    Replaced,
}

/// What became of one look at the own entry.
enum Step {
    Kept,
    LeaseLost,
    Replaced,
}

// ===== impl Registration =====

impl Registration {
    /// Gets a lease, and with it an incarnation; nothing is registered yet.
    ///
    /// # Cancel safety
    ///
    /// Cancel safe; a lease that was granted runs out.
    pub async fn begin(
        link: Link,
        keys: &Keys,
        worker: &str,
        address: String,
        slots: usize,
        ttl: Duration,
    ) -> Self {
        let lease = loop {
            match grant(&link, ttl).await {
                Ok(lease) => break lease,
                Err(error) => tracing::warn!(%error, "waits for etcd"),
            }
            tokio::time::sleep(AGAIN).await;
        };
        Self {
            link,
            key: keys.worker(worker),
            ttl,
            entry: Entry {
                address,
                incarnation: lease.unsigned_abs(),
                slots,
            },
            lease,
            written_at: 0,
        }
    }

    /// Returns what tells this life of the worker from others.
    #[must_use]
    pub fn incarnation(&self) -> u64 {
        self.entry.incarnation
    }

    /// Registers, and stays registered until a younger life replaces it.
    ///
    /// # Cancel safety
    ///
    /// Cancel safe, and called again it goes on; the entry vanishes with its lease, or by
    /// [`withdraw`](Self::withdraw).
    pub async fn keep(&mut self) -> Ended {
        while self.written_at == 0 {
            // A life that begins replaces whatever is there.
            if let Err(error) = self.put(vec![], vec![]).await {
                tracing::warn!(%error, "cannot register yet");
                tokio::time::sleep(AGAIN).await;
            }
        }
        tracing::info!(key = self.key, lease = self.lease, "registered");
        loop {
            let pause = match self.renew().await {
                Ok(Step::Kept) => self.ttl / 3,
                Ok(Step::Replaced) => return Ended::Replaced,
                Ok(Step::LeaseLost) => {
                    tracing::warn!(key = self.key, "the lease is lost: registers again");
                    self.new_lease().await;
                    continue;
                }
                Err(error) => {
                    tracing::warn!(%error, "cannot renew the registration");
                    AGAIN
                }
            };
            tokio::time::sleep(pause).await;
        }
    }

    /// Ends the lease, and with it the entry, within half a second.
    ///
    /// # Cancel safety
    ///
    /// Cancel safe; then the lease runs out.
    pub async fn withdraw(self) {
        let lease = self.lease;
        let revoked = self
            .link
            .call(|mut client| async move { client.lease_revoke(lease).await });
        if let Ok(Err(error)) = tokio::time::timeout(WITHDRAW, revoked).await {
            tracing::warn!(%error, "the registration stays until its lease runs out");
        }
    }

    async fn new_lease(&mut self) {
        loop {
            match grant(&self.link, self.ttl).await {
                Ok(lease) => {
                    self.lease = lease;
                    return;
                }
                Err(error) => tracing::warn!(%error, "cannot register again yet"),
            }
            tokio::time::sleep(AGAIN).await;
        }
    }

    /// Renews the lease and looks whether the entry is there.
    async fn renew(&mut self) -> Result<Step, Unreachable> {
        let lease = self.lease;
        let left = self.link.call(|mut client| async move {
            let (mut keeper, mut answers) = client.lease_keep_alive(lease).await?;
            keeper.keep_alive().await?;
            Ok(answers.message().await?.map_or(0, |answer| answer.ttl()))
        });
        match left.await {
            Ok(left) if left > 0 => {}
            // How the client tells a lease that is gone: by an error, or by zero.
            Ok(_) => return Ok(Step::LeaseLost),
            Err(error) if error.to_string().contains("lease not found") => {
                return Ok(Step::LeaseLost);
            }
            Err(error) => return Err(error),
        }
        // Also where somebody has removed the key by hand.
        let is_missing = Compare::create_revision(self.key.clone(), CompareOp::Equal, 0);
        let found = TxnOp::get(self.key.clone(), None);
        let response = self.put(vec![is_missing], vec![found]).await?;
        let found = reads(&response).next();
        let Some(kv) = found.as_ref().and_then(|read| read.kvs().first()) else {
            return Ok(Step::Kept);
        };
        let entry = kv.value_str().ok().and_then(|text| text.parse().ok());
        let is_own = entry.is_some_and(|e: Entry| e.incarnation == self.entry.incarnation);
        let is_younger = !is_own && kv.mod_revision() > self.written_at;
        if is_younger {
            return Ok(Step::Replaced);
        }
        if is_own && kv.lease() == self.lease {
            return Ok(Step::Kept);
        }
        // Under a lease that is about to end, or what an older state of etcd has brought back.
        let is_same = Compare::mod_revision(self.key.clone(), CompareOp::Equal, kv.mod_revision());
        self.put(vec![is_same], vec![]).await?;
        Ok(Step::Kept)
    }

    /// Writes the entry where all of `when` holds, else does the other thing.
    async fn put(
        &mut self,
        when: Vec<Compare>,
        or_else: Vec<TxnOp>,
    ) -> Result<TxnResponse, Unreachable> {
        let options = PutOptions::new().with_lease(self.lease);
        let put = TxnOp::put(self.key.clone(), self.entry.to_string(), Some(options));
        let txn = Txn::new().when(when).and_then([put]).or_else(or_else);
        let response = self.link.txn(txn).await?;
        if response.succeeded() {
            self.written_at = response.header().map_or(0, ResponseHeader::revision);
        }
        Ok(response)
    }
}

async fn grant(link: &Link, ttl: Duration) -> Result<i64, Unreachable> {
    let seconds = i64::try_from(ttl.as_secs()).unwrap_or(1).max(1);
    let granted = link.call(|mut client| async move {
        client.lease_grant(seconds, None::<LeaseGrantOptions>).await
    });
    Ok(granted.await?.id())
}

// ===== impl Entry =====

impl Entry {
    pub(super) fn into_place(self) -> Option<Place> {
        let endpoint = Endpoint::from_shared(format!("http://{}", self.address)).ok()?;
        let place = Place::new(endpoint).with_incarnation(self.incarnation);
        Some(place.with_slots(self.slots))
    }
}

impl fmt::Display for Entry {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self {
            address,
            incarnation,
            slots,
        } = self;
        write!(
            f,
            "address {address}\nincarnation {incarnation}\nslots {slots}\n"
        )
    }
}

impl FromStr for Entry {
    type Err = ();

    fn from_str(text: &str) -> Result<Self, ()> {
        let field = |name: &str| {
            let mut lines = text.lines().filter_map(|line| line.split_once(' '));
            lines
                .find(|(field, _)| *field == name)
                .map(|(_, value)| value)
        };
        let number = |name: &str| field(name).and_then(|value| value.parse::<u64>().ok());
        Ok(Self {
            address: field("address").ok_or(())?.to_owned(),
            incarnation: number("incarnation").ok_or(())?,
            slots: number("slots")
                .and_then(|n| usize::try_from(n).ok())
                .ok_or(())?,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_entry_survives_its_text_and_damage_is_no_entry() {
        let entry = Entry {
            address: "w1.test:7000".to_owned(),
            incarnation: u64::MAX,
            slots: 4,
        };
        assert_eq!(entry.to_string().parse(), Ok(entry.clone()));
        assert!(entry.into_place().is_some());
        for text in ["", "address a:1\nincarnation x\nslots 1", "slots 1"] {
            assert_eq!(text.parse::<Entry>(), Err(()), "{text:?}");
        }
    }
}
