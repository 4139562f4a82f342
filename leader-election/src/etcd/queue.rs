//! What a linearizable read tells about a place.

use std::{
    panic::{AssertUnwindSafe, catch_unwind},
    sync::Arc,
};

use etcd_client::{
    GetOptions, GetResponse, KeyValue, SortOrder, SortTarget, TxnOp, TxnOpResponse, TxnResponse,
};

use super::keys::{Keys, lease_of};
use crate::{Loss, Place, Standing};

/// How many keys before the own one are read: the nearest that is a candidate is
/// wanted, and keys of nested elections may lie between.
const AHEAD: i64 = 8;

/// Whether a place exists, and in which life of the store.
#[derive(Debug)]
pub(super) struct Proof {
    pub(super) revision: u64,
    pub(super) raft_term: u64,
    life: Option<Vec<u8>>,
    own: Option<Own>,
}

/// The candidate's key.
#[derive(Debug, PartialEq, Eq)]
struct Own {
    token: u64,
    lease: i64,
}

/// Where a place stands.
#[derive(Debug)]
pub(super) struct View {
    pub(super) proof: Proof,
    pub(super) ahead: Ahead,
}

/// Who is before the place.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Ahead {
    Nobody,
    /// The nearest candidate's key.
    Candidate(Vec<u8>),
    /// Only keys of nested elections were among those read, and there are more.
    Unknown,
}

// ===== impl Proof =====

impl Proof {
    /// Returns the reads; they go at the end of a transaction's branch.
    pub(super) fn ops(keys: &Keys, place: &Place) -> Vec<TxnOp> {
        let own = GetOptions::new().with_keys_only();
        vec![
            TxnOp::get(keys.candidate(place.id), Some(own)),
            TxnOp::get(keys.life(), None),
        ]
    }

    /// Reads the answer; `None` where it is none to [`ops`](Self::ops).
    pub(super) fn of(response: &TxnResponse) -> Option<Self> {
        let reads = reads(response);
        let [.., own, life] = reads.as_slice() else {
            return None;
        };
        Self::read(response, own, life)
    }

    fn read(response: &TxnResponse, own: &GetResponse, life: &GetResponse) -> Option<Self> {
        let header = response.header()?;
        Some(Self {
            revision: token(header.revision()),
            raft_term: header.raft_term(),
            life: life.kvs().first().map(|kv| kv.value().to_vec()),
            own: own.kvs().first().map(|kv| Own {
                token: token(kv.create_revision()),
                lease: kv.lease(),
            }),
        })
    }

    /// Returns the scope that etcd has now.
    pub(super) fn scope(&self, keys: &Keys) -> Option<Arc<str>> {
        let life = self.life.as_deref().map(String::from_utf8_lossy);
        life.map(|life| keys.scope(&life))
    }

    /// Says why the place is gone, if it is. The store had reached `floor` when the
    /// read was sent.
    pub(super) fn loss(&self, keys: &Keys, place: &Place, floor: u64) -> Option<Loss> {
        let is_same_life = self.scope(keys).as_ref() == Some(&place.scope);
        if !is_same_life || self.revision < place.token.max(floor) {
            return Some(Loss::Reset);
        }
        // Whoever has overwritten the key by hand has taken it off its lease: it would stay
        // when the lease ends.
        let own = Own {
            token: place.token,
            lease: lease_of(place.id),
        };
        (self.own.as_ref() != Some(&own)).then_some(Loss::Removed)
    }

    /// Says whether the key of the place is there, though the place may be gone.
    pub(super) fn has_key(&self, place: &Place) -> bool {
        let own = self.own.as_ref();
        own.is_some_and(|own| own.token == place.token)
    }
}

// ===== impl View =====

impl View {
    /// Returns the reads; they go at the end of a transaction's branch.
    pub(super) fn ops(keys: &Keys, place: &Place) -> Vec<TxnOp> {
        let mut ops = Proof::ops(keys, place);
        let ahead = before(place.token).with_limit(AHEAD);
        ops.push(TxnOp::get(keys.prefix(), Some(ahead)));
        ops
    }

    /// Reads the answer; `None` where it is none to [`ops`](Self::ops).
    pub(super) fn of(keys: &Keys, response: &TxnResponse) -> Option<Self> {
        let reads = reads(response);
        let [.., own, life, ahead] = reads.as_slice() else {
            return None;
        };
        let proof = Proof::read(response, own, life)?;
        let ahead = match nearest(keys, ahead.kvs()) {
            Some(key) => Ahead::Candidate(key),
            None if ahead.more() => Ahead::Unknown,
            None => Ahead::Nobody,
        };
        Some(Self { proof, ahead })
    }

    pub(super) fn standing(&self, keys: &Keys, place: &Place, floor: u64) -> Standing {
        match (self.proof.loss(keys, place, floor), &self.ahead) {
            (Some(loss), _) => Standing::Gone(loss),
            (None, Ahead::Nobody) => Standing::First,
            (None, Ahead::Candidate(_) | Ahead::Unknown) => Standing::Queued,
        }
    }
}

/// Reads the keys that were created before a place's own, the nearest first.
fn before(token: u64) -> GetOptions {
    let last = i64::try_from(token).unwrap_or(i64::MAX) - 1;
    GetOptions::new()
        .with_prefix()
        .with_keys_only()
        .with_sort(SortTarget::Create, SortOrder::Descend)
        // Zero would mean no bound; the first write of a store has revision 2.
        .with_max_create_revision(last.max(1))
}

/// Returns the first key that is a candidate's.
fn nearest(keys: &Keys, kvs: &[KeyValue]) -> Option<Vec<u8>> {
    kvs.iter()
        .map(KeyValue::key)
        .find(|key| keys.is_candidate(key))
        .map(<[u8]>::to_vec)
}

/// Turns a revision into a token; etcd's revisions are never negative.
pub(super) fn token(revision: i64) -> u64 {
    u64::try_from(revision).unwrap_or(0)
}

/// Returns the answers of a transaction's reads.
pub(super) fn reads(response: &TxnResponse) -> Vec<GetResponse> {
    // The client panics at a step without an answer: one more that is incomplete.
    let answers = catch_unwind(AssertUnwindSafe(|| response.op_responses()));
    let answers = answers.unwrap_or_default().into_iter();
    let reads = answers.filter_map(|answer| match answer {
        TxnOpResponse::Get(read) => Some(read),
        _ => None,
    });
    reads.collect()
}
