//! The seam between the driver and a backend.
//!
//! A backend is a store with leases and an ordered queue of places. It makes
//! no decision of the protocol and keeps no timer for the candidate: the
//! driver does both.

use std::{fmt, sync::Arc, time::Duration};

use async_trait::async_trait;
use tokio::sync::watch;

use crate::{Error, Leader, Loss};

/// Longest value of a candidate, in bytes: 1 MiB.
pub const MAX_VALUE_BYTES: usize = 1 << 20;

/// What a backend does for the driver, [`StoreElection`](crate::StoreElection).
///
/// An election is a queue of places, each with a lease of its own. The first
/// place leads. A place goes away when its lease ends, when it leaves, or when
/// someone removes it, and never comes back: joining again gives a new one at
/// the back of the queue with a higher token.
///
/// Calls for one place may overlap.
///
/// # Errors
///
/// An [`Error`] of kind `Invalid` or `Denied` ends a campaign; all others are retried.
/// A call that fails may have taken effect.
///
/// # Cancel safety
///
/// Every call but `observe` runs under a limit and may be dropped by the driver before it
/// ends; whether a dropped call took effect is then unknown, and the next call must cope
/// with both.
#[async_trait]
pub trait Store: Send + Sync + 'static {
    /// Takes a place at the back of the queue under a lease of `ttl`.
    ///
    /// Idempotent: if a place of `id` exists, it is returned unchanged. The
    /// lease may be longer than asked for; the reply says how long it is.
    async fn join(&self, id: CandidateId, value: &[u8], ttl: Duration) -> Result<Grant, Error>;

    /// Waits until the standing of `place` is no longer `known`, and returns it.
    ///
    /// The backend must notice by itself when its connection is dead or its
    /// watch is stuck, and fail: the driver asks again only after one TTL. A
    /// wrong `First` does no harm, since it is verified.
    async fn wait(&self, place: &Place, known: Standing) -> Result<Standing, Error>;

    /// Reads the present standing of `place`, linearizably.
    async fn verify(&self, place: &Place) -> Result<Standing, Error>;

    /// Starts the lease of `place` anew.
    ///
    /// `Confirmed` promises that the place existed at some time after the lease
    /// was started anew, and that it lasts for the TTL from then on.
    async fn renew(&self, place: &Place) -> Result<Renewal, Error>;

    /// Replaces the value of `place`; its token stays.
    ///
    /// Returns the standing; with `Gone`, nothing was written.
    async fn proclaim(&self, place: &Place, value: &[u8]) -> Result<Standing, Error>;

    /// Gives up the place and the lease of `id`.
    ///
    /// Succeeds when they are gone afterwards, whoever removed them. It must
    /// not touch any other place: `token`, where it is known, is to be compared.
    /// It is called without a token when it is unknown whether `join` took
    /// effect.
    async fn leave(&self, id: CandidateId, token: Option<u64>) -> Result<(), Error>;

    /// Sends every change of the leader to `leader`, the present one first.
    ///
    /// Runs until it fails or its connection ends, and is then called again.
    /// After a newer leader it must not send an older one.
    async fn observe(&self, leader: &watch::Sender<Option<Leader>>) -> Result<(), Error>;
}

/// The number that a candidate picks for one place in the queue.
///
/// Random and never used again, so that a call without an answer can be
/// repeated or taken back.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct CandidateId(u64);

/// A place in the queue, as [`Store::join`] granted it.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Place {
    /// Who holds it.
    pub id: CandidateId,
    /// The fencing token that its leadership has or will have: higher than that
    /// of every place granted before in the same scope.
    pub token: u64,
    /// Within what the token is comparable; text of at most 128 bytes.
    pub scope: Arc<str>,
}

/// What [`Store::join`] granted.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Grant {
    /// The place in the queue.
    pub place: Place,
    /// Length of the lease.
    pub ttl: Duration,
}

/// Where a place stands in the queue.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Standing {
    /// Another place is before it.
    Queued,
    /// It is the first: its holder may lead.
    First,
    /// It is gone for good, and why: [`Loss::Removed`], or [`Loss::Reset`]
    /// where the store can tell that it went backwards.
    Gone(Loss),
}

/// The store's answer to a renewal.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Renewal {
    /// The lease has been started anew and lasts this long.
    Confirmed(Duration),
    /// The place or its lease is gone for good, and why.
    Gone(Loss),
}

// ===== impl CandidateId =====

impl CandidateId {
    /// Wraps a number; the driver's own are random, within 1 and 2^63 - 1.
    #[must_use]
    pub const fn new(id: u64) -> Self {
        Self(id)
    }

    /// Returns the number.
    #[must_use]
    pub const fn as_u64(self) -> u64 {
        self.0
    }

    /// From the system: a generator of the process may be seeded, or be copied by a fork,
    /// and two candidates of one id would hold one lease.
    pub(crate) fn random() -> Self {
        let mut bytes = [0; 8];
        getrandom::fill(&mut bytes).expect("the system has a source of randomness");
        Self((u64::from_le_bytes(bytes) >> 1).max(1))
    }
}

impl fmt::Debug for CandidateId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "CandidateId({:x})", self.0)
    }
}

// ===== impl Place =====

impl Place {
    /// Describes a place.
    pub fn new(id: CandidateId, token: u64, scope: impl Into<Arc<str>>) -> Self {
        Self {
            id,
            token,
            scope: scope.into(),
        }
    }
}

// ===== impl Grant =====

impl Grant {
    /// Describes a grant.
    #[must_use]
    pub fn new(place: Place, ttl: Duration) -> Self {
        Self { place, ttl }
    }
}
