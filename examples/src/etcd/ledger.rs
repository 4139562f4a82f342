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
use fencing::Guard;
use leader_election::{Leadership, etcd::EtcdElection};
use prost::Message;
use tonic::async_trait;

use super::keys::Keys;
use super::link::{Link, Unreachable, reads};
use super::restore::lacks;
use super::sweep::sweep;
use crate::controls::{Half, is_off};
use crate::roster::Roster;
use crate::store::{Backup, CommitError, Ledger, Output, Pen, Reign, StoreError};
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
    scope: String,
    leader_key: Vec<u8>,
    /// Once the reign has begun.
    chain: Option<Known>,
}

/// The chain, as its leader knows it.
#[derive(Clone, Debug)]
struct Known {
    head: Manifest,
    /// What the next commit replaces; zero where there is none.
    head_revision: i64,
    deltas: BTreeSet<String>,
    pen: Arc<Mutex<Pen>>,
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

    /// Returns every delta that the chain names, and checks that it is unbroken, and leads to
    /// this head.
    ///
    /// # Errors
    ///
    /// Those of [`head`](Self::head).
    pub async fn deltas(
        link: &Link,
        keys: &Keys,
        head: &Manifest,
    ) -> Result<Vec<Delta>, CommitError> {
        let text =
            |at| format!("the chain in etcd is broken at epoch {at}: run `meta restore` once");
        let broken = |at: Epoch| CommitError::Broken(text(at));
        let (mut from, prefix) = (keys.chain().into_bytes(), keys.chain());
        // The first key that does not begin with the prefix: '/' is followed by '0'.
        let end = prefix[..prefix.len() - 1].to_owned() + "0";
        let (mut deltas, mut prev) = (Vec::new(), Epoch::START);
        let mut has_head = head.id() == Epoch::START;
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
                    return Err(broken(manifest.id()));
                }
                prev = manifest.id();
                // There may be more by now.
                has_head |= prev == head.id();
                deltas.extend(manifest.deltas);
                from = link.key().to_vec();
                from.push(0);
            }
            if !read.more() {
                return has_head.then_some(deltas).ok_or_else(|| broken(head.id()));
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

    /// Keeps a manifest in the output folder, before it is committed: where etcd is
    /// rebuilt, the chain comes back from there.
    async fn keep(&self, pen: &Arc<Mutex<Pen>>, manifest: &Manifest) -> Result<(), CommitError> {
        let (pen, manifest) = (Arc::clone(pen), manifest.clone());
        let kept = blocking(move || {
            let mut pen = pen.lock().unwrap_or_else(PoisonError::into_inner);
            pen.keep(&manifest).map_err(CommitError::Unknown)
        });
        kept.await
    }

    /// Notes beside it that the kept manifest is committed.
    async fn note(&self, pen: &Arc<Mutex<Pen>>) {
        let pen = Arc::clone(pen);
        let noted = blocking(move || {
            let mut pen = pen.lock().unwrap_or_else(PoisonError::into_inner);
            pen.landed().map_err(CommitError::Unknown)
        });
        if let Err(error) = noted.await {
            tracing::warn!(%error, "the folder of backups does not know of the last commit");
        }
    }

    fn transaction(&self, seat: &Seat, chain: &Known, manifest: &Manifest) -> Txn {
        let head = self.keys.head();
        let mut guards = Vec::new();
        if !is_off(Half::CommitGuard) {
            guards.push(seat.guard());
        }
        if !is_off(Half::CompareOnHead) {
            let revision = chain.head_revision;
            guards.push(Compare::mod_revision(
                head.clone(),
                CompareOp::Equal,
                revision,
            ));
        }
        let link = link_of(manifest);
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
        let (token, scope) = (leadership.token(), leadership.scope().to_owned());
        let mut seat = Seat {
            token,
            scope: scope.clone(),
            leader_key: self.election.leader_key(leadership),
            chain: None,
        };
        // What keeps it from beginning can be told.
        *self.seat() = Some(seat.clone());
        let backup = Backup::of(&self.output);
        let broken = |error: StoreError| CommitError::Broken(error.to_string());
        // First, so that nothing which is kept meanwhile seems to be missing in etcd.
        let saved = blocking({
            let backup = backup.clone();
            move || backup.read().map_err(broken)
        });
        let saved = saved.await?;
        let (head, head_revision) = Self::head(&self.link, &self.keys).await?;
        let reign = reign(token, &seat.leader_key);
        if let Some(why) = lacks(&saved, &scope, Some(&reign), &head) {
            return Err(CommitError::Behind(why));
        }
        let deltas = Self::deltas(&self.link, &self.keys, &head).await?;
        let (output, begun) = (self.output.clone(), head.clone());
        let opened = blocking(move || {
            output.check(&deltas).map_err(broken)?;
            let names = deltas.iter().map(|delta| delta.name.clone()).collect();
            let pen = backup.begin(&scope, &reign, &begun, deltas);
            Ok((names, pen.map_err(broken)?))
        });
        let (deltas, pen) = opened.await?;
        seat.chain = Some(Known {
            head: head.clone(),
            head_revision,
            deltas,
            pen: Arc::new(Mutex::new(pen)),
        });
        *self.seat() = Some(seat);
        Ok(head)
    }

    async fn commit(&self, token: u64, manifest: &Manifest) -> Result<(), CommitError> {
        let seat = self.seat().clone();
        let seat = seat.filter(|seat| seat.token == token && manifest.id().term == token);
        let Some((seat, chain)) = seat.and_then(|seat| seat.chain.clone().map(|c| (seat, c)))
        else {
            return Err(CommitError::WrongTerm);
        };
        self.keep(&chain.pen, manifest).await?;
        let response = self.link.txn(self.transaction(&seat, &chain, manifest));
        let response = response.await.map_err(|error| {
            if error.is_refused {
                CommitError::Broken(error.to_string())
            } else {
                unknown(error)
            }
        })?;
        let head_revision = settle(&response, token, &chain, manifest)?;
        self.note(&chain.pen).await;
        if let Some(seat) = self.seat().as_mut().filter(|seat| seat.token == token)
            && let Some(chain) = &mut seat.chain
        {
            let names = manifest.deltas.iter().map(|delta| delta.name.clone());
            chain.deltas.extend(names);
            chain.head = manifest.clone();
            chain.head_revision = head_revision;
        }
        Ok(())
    }

    async fn clean(&self, guard: &Guard, roster: &Roster) -> io::Result<usize> {
        let seat = self.seat().clone();
        let Some((scope, chain)) = seat.and_then(|seat| Some((seat.scope, seat.chain?))) else {
            return Ok(0);
        };
        let output = self.output.clone();
        let permit = guard.permit().map_err(io::Error::other)?;
        let found = tokio::task::spawn_blocking(move || {
            let deltas = chain.deltas.iter().map(String::as_str).collect();
            let left = output.leftovers(&deltas, &chain.head)?;
            // Parts are the leaders' own. The permit ends with them: the process ends
            // before another can lead, whatever keeps the disk busy.
            let parts = output.remove_parts(&left.parts)?;
            drop(permit);
            io::Result::Ok((parts, left.deltas))
        });
        let (parts, deltas) = found.await.map_err(io::Error::other)??;
        Ok(parts + sweep(guard, &scope, roster, deltas).await?)
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
fn settle(
    response: &TxnResponse,
    token: u64,
    chain: &Known,
    manifest: &Manifest,
) -> Result<i64, CommitError> {
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
    if u64::try_from(created) != Ok(token) {
        return Err(CommitError::Deposed);
    }
    match head {
        Some(head) if head.mod_revision() != chain.head_revision => Err(CommitError::Fork {
            head: decode(&head)?.id(),
        }),
        None if chain.head_revision != 0 => Err(CommitError::Fork { head: Epoch::START }),
        _ => Err(CommitError::Withdrawn),
    }
}

/// Names the leadership that a candidate's key has won.
pub(super) fn reign(token: u64, key: &[u8]) -> Reign {
    let key = String::from_utf8_lossy(key);
    let key = key.rsplit('/').next().unwrap_or_default().to_owned();
    Reign { token, key }
}

/// Returns what a manifest's link of the chain holds.
pub(super) fn link_of(manifest: &Manifest) -> Manifest {
    Manifest {
        positions: Vec::new(),
        parts: Vec::new(),
        ..manifest.clone()
    }
}

/// Runs what waits for the disk.
pub(super) async fn blocking<T: Send + 'static>(
    work: impl FnOnce() -> Result<T, CommitError> + Send + 'static,
) -> Result<T, CommitError> {
    let done = tokio::task::spawn_blocking(work).await;
    done.unwrap_or_else(|error| Err(CommitError::Unknown(io::Error::other(error))))
}

fn decode(value: &KeyValue) -> Result<Manifest, CommitError> {
    Manifest::decode(value.value()).map_err(|_| {
        let key = String::from_utf8_lossy(value.key());
        CommitError::Broken(format!(
            "the key {key} in etcd holds something else: use another --loop"
        ))
    })
}

pub(super) fn unknown(error: Unreachable) -> CommitError {
    CommitError::Unknown(io::Error::other(error))
}
