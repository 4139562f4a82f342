//! The chain of epochs in etcd: a transaction that only the leader can make.
//!
//! It compares the create revision of the leader's key with the token, and the mod
//! revision of the head with that of what it replaces. So it cannot land once the
//! leadership was given to another, and it lands at most once however often it is sent.

use std::collections::BTreeSet;
use std::io;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use etcd_client::{
    Compare, CompareOp, DeleteOptions, GetOptions, KeyValue, PutOptions, SortOrder, SortTarget,
    Txn, TxnOp, TxnResponse,
};
use leader_election::{Leadership, etcd::EtcdElection};
use prost::Message;
use tonic::async_trait;

use super::keys::Keys;
use super::link::{Link, Unreachable, reads};
use crate::controls::{Half, is_off};
use crate::store::{CommitError, Ledger, Output};
use crate::wire::{Delta, Epoch, Manifest};

/// Links of the chain that are read at once.
const PAGE: i64 = 200;

/// The chain of epochs in etcd; its files lie in an output folder.
#[derive(Clone, Debug)]
pub struct EtcdLedger {
    link: Link,
    keys: Keys,
    election: EtcdElection,
    output: Output,
    seat: Arc<Mutex<Option<Seat>>>,
}

/// What a leader knows of the chain.
#[derive(Clone, Debug)]
struct Seat {
    token: u64,
    leader_key: Vec<u8>,
    head: Manifest,
    /// What the next commit replaces; zero where there is none.
    head_revision: i64,
    deltas: BTreeSet<String>,
}

// ===== impl EtcdLedger =====

impl EtcdLedger {
    /// Uses the chain of the loop that `keys` names.
    #[must_use]
    pub fn new(link: Link, keys: Keys, election: EtcdElection, output: Output) -> Self {
        Self {
            link,
            keys,
            election,
            output,
            seat: Arc::default(),
        }
    }

    /// Returns the chain's head and its mod revision, zero where there is none.
    ///
    /// # Errors
    ///
    /// [`CommitError::Unknown`] where etcd cannot be reached, [`CommitError::Broken`]
    /// where it holds something else.
    pub async fn head(link: &Link, keys: &Keys) -> Result<(Manifest, i64), CommitError> {
        let key = keys.head();
        let read = link.call(|mut client| async move { client.get(key, None).await });
        let read = read.await.map_err(unknown)?;
        match read.kvs().first() {
            Some(head) => Ok((decode(head)?, head.mod_revision())),
            None => Ok((Manifest::default(), 0)),
        }
    }

    /// Returns every delta that the chain names, and checks that it is unbroken.
    ///
    /// # Errors
    ///
    /// Those of [`head`](Self::head).
    pub async fn deltas(link: &Link, keys: &Keys) -> Result<Vec<Delta>, CommitError> {
        let (mut from, prefix) = (keys.chain().into_bytes(), keys.chain());
        // The first key that does not begin with the prefix: '/' is followed by '0'.
        let end = prefix[..prefix.len() - 1].to_owned() + "0";
        let (mut deltas, mut prev) = (Vec::new(), Epoch::START);
        loop {
            let options = GetOptions::new()
                .with_range(end.clone())
                .with_sort(SortTarget::Key, SortOrder::Ascend)
                .with_limit(PAGE);
            let key = from.clone();
            let read = link.call(|mut client| async move { client.get(key, Some(options)).await });
            let read = read.await.map_err(unknown)?;
            for link in read.kvs() {
                let manifest = decode(link)?;
                if manifest.predecessor() != prev {
                    let text = format!(
                        "the chain in etcd is broken at epoch {}: restore etcd from a backup",
                        manifest.id()
                    );
                    return Err(CommitError::Broken(text));
                }
                prev = manifest.id();
                deltas.extend(manifest.deltas);
                from = link.key().to_vec();
                from.push(0);
            }
            if !read.more() {
                return Ok(deltas);
            }
        }
    }

    /// Writes a value that only the present leader may write; says whether it did.
    ///
    /// # Errors
    ///
    /// [`Unreachable`].
    pub async fn put_as_leader(&self, key: String, value: String) -> Result<bool, Unreachable> {
        let Some(guard) = self.seat().as_ref().map(Seat::guard) else {
            return Ok(false);
        };
        let txn = Txn::new()
            .when([guard])
            .and_then([TxnOp::put(key, value, None)]);
        Ok(self.link.txn(txn).await?.succeeded())
    }

    fn seat(&self) -> MutexGuard<'_, Option<Seat>> {
        self.seat.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn transaction(&self, seat: &Seat, manifest: &Manifest) -> Txn {
        let head = self.keys.head();
        let mut guards = Vec::new();
        if !is_off(Half::CommitGuard) {
            guards.push(seat.guard());
        }
        if !is_off(Half::CompareOnHead) {
            let revision = seat.head_revision;
            guards.push(Compare::mod_revision(
                head.clone(),
                CompareOp::Equal,
                revision,
            ));
        }
        let link = Manifest {
            positions: Vec::new(),
            parts: Vec::new(),
            ..manifest.clone()
        };
        let mut writes = vec![
            TxnOp::put(head.clone(), manifest.encode_to_vec(), None),
            TxnOp::put(self.keys.link(manifest.id()), link.encode_to_vec(), None),
        ];
        for applied in &manifest.applied {
            let (request, answer) = (
                self.keys.request(&applied.id),
                self.keys.answer(&applied.id),
            );
            // Withdrawn or answered since: its revision is gone for good.
            let is_open =
                Compare::mod_revision(request.clone(), CompareOp::Equal, applied.revision);
            guards.push(is_open);
            let says = format!("ok {}: {}", manifest.id(), applied.says);
            let lease = PutOptions::new().with_lease(applied.lease);
            writes.push(TxnOp::delete(request, None::<DeleteOptions>));
            writes.push(TxnOp::put(answer, says, Some(lease)));
        }
        let found = [
            TxnOp::get(seat.leader_key.clone(), None),
            TxnOp::get(head, None),
        ];
        Txn::new().when(guards).and_then(writes).or_else(found)
    }
}

#[async_trait]
impl Ledger for EtcdLedger {
    /// Read after the win: a commit under an older token cannot land any more.
    async fn begin(&self, leadership: &Leadership) -> Result<Manifest, CommitError> {
        let (head, head_revision) = Self::head(&self.link, &self.keys).await?;
        let deltas = Self::deltas(&self.link, &self.keys).await?;
        let output = self.output.clone();
        let checked = tokio::task::spawn_blocking(move || {
            let checked = output.check(&deltas);
            checked.map(|()| deltas.into_iter().map(|delta| delta.name).collect())
        });
        let deltas = checked
            .await
            .map_err(|error| CommitError::Unknown(io::Error::other(error)))?
            .map_err(|error| CommitError::Broken(error.to_string()))?;
        *self.seat() = Some(Seat {
            token: leadership.token(),
            leader_key: self.election.leader_key(leadership),
            head: head.clone(),
            head_revision,
            deltas,
        });
        Ok(head)
    }

    async fn commit(&self, token: u64, manifest: &Manifest) -> Result<(), CommitError> {
        let seat = self.seat().clone();
        let Some(seat) = seat.filter(|seat| seat.token == token) else {
            return Err(CommitError::WrongTerm);
        };
        if manifest.id().term != token {
            return Err(CommitError::WrongTerm);
        }
        let response = self.link.txn(self.transaction(&seat, manifest)).await;
        let response = response.map_err(|error| {
            if error.is_refused {
                CommitError::Broken(error.to_string())
            } else {
                unknown(error)
            }
        })?;
        let head_revision = settle(&response, &seat, manifest)?;
        if let Some(seat) = self.seat().as_mut().filter(|seat| seat.token == token) {
            let names = manifest.deltas.iter().map(|delta| delta.name.clone());
            seat.deltas.extend(names);
            seat.head = manifest.clone();
            seat.head_revision = head_revision;
        }
        Ok(())
    }

    async fn clean(&self) -> io::Result<usize> {
        let Some(seat) = self.seat().clone() else {
            return Ok(0);
        };
        let output = self.output.clone();
        let cleaned = tokio::task::spawn_blocking(move || {
            let deltas = seat.deltas.iter().map(String::as_str).collect();
            output.remove_unreferenced(&deltas, &seat.head)
        });
        cleaned.await.map_err(io::Error::other)?
    }

    fn output(&self) -> &Output {
        &self.output
    }
}

// ===== impl Seat =====

impl Seat {
    /// Holds as long as the leadership was given to nobody else.
    fn guard(&self) -> Compare {
        let token = i64::try_from(self.token).unwrap_or(i64::MAX);
        Compare::create_revision(self.leader_key.clone(), CompareOp::Equal, token)
    }
}

/// Says what became of a commit; returns the head's revision where it landed.
///
/// Each answer is final: no attempt that is still under way can change it.
fn settle(response: &TxnResponse, seat: &Seat, manifest: &Manifest) -> Result<i64, CommitError> {
    if response.succeeded() {
        return Ok(response.header().map_or(0, |header| header.revision()));
    }
    let mut found = reads(response).map(|read| read.kvs().first().cloned());
    let (leader, head) = (found.next().flatten(), found.next().flatten());
    if let Some(head) = &head
        && head.value() == manifest.encode_to_vec()
    {
        // An earlier attempt landed.
        return Ok(head.mod_revision());
    }
    let created = leader.map_or(0, |leader| leader.create_revision());
    if u64::try_from(created) != Ok(seat.token) {
        return Err(CommitError::Deposed);
    }
    match head {
        Some(head) if head.mod_revision() != seat.head_revision => Err(CommitError::Fork {
            head: decode(&head)?.id(),
        }),
        None if seat.head_revision != 0 => Err(CommitError::Fork { head: Epoch::START }),
        _ => Err(CommitError::Withdrawn),
    }
}

fn decode(value: &KeyValue) -> Result<Manifest, CommitError> {
    Manifest::decode(value.value()).map_err(|_| {
        let key = String::from_utf8_lossy(value.key());
        CommitError::Broken(format!(
            "the key {key} in etcd holds something else: use another --name"
        ))
    })
}

fn unknown(error: Unreachable) -> CommitError {
    CommitError::Unknown(io::Error::other(error))
}
