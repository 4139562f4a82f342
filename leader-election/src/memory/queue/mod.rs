//! The store's state: places in the order of their tokens, each with a lease.

use std::{
    collections::{BTreeMap, BTreeSet},
    time::Duration,
};

use tokio::time::Instant;

use crate::{CandidateId, Leader, Loss, Standing};

/// The places of one election. It is told the time, and reads no clock.
#[derive(Debug)]
pub(super) struct Queue {
    /// The token of the next place; none when they are used up.
    next_token: Option<u64>,
    places: BTreeMap<u64, Lease>,
    /// Tokens whose holders the store does not hear.
    cut: BTreeSet<u64>,
}

#[derive(Debug)]
struct Lease {
    id: CandidateId,
    value: Vec<u8>,
    ttl: Duration,
    ends: Instant,
}

// ===== impl Queue =====

impl Queue {
    pub(super) fn new(first_token: u64) -> Self {
        Self {
            next_token: Some(first_token),
            places: BTreeMap::new(),
            cut: BTreeSet::new(),
        }
    }

    /// Drops the places whose leases have ended; true if there were any.
    pub(super) fn purge(&mut self, now: Instant) -> bool {
        let before = self.places.len();
        self.places.retain(|_, lease| now < lease.ends);
        self.places.len() != before
    }

    /// Returns when the next lease ends.
    pub(super) fn next_end(&self) -> Option<Instant> {
        self.places.values().map(|lease| lease.ends).min()
    }

    /// Takes the last place, or finds the one of `id`; none without a token.
    pub(super) fn join(
        &mut self,
        now: Instant,
        id: CandidateId,
        value: &[u8],
        ttl: Duration,
    ) -> Option<(u64, Duration)> {
        if let Some((token, lease)) = self.places.iter().find(|(_, lease)| lease.id == id) {
            return Some((*token, lease.ttl));
        }
        let token = self.next_token?;
        self.next_token = token.checked_add(1);
        let lease = Lease {
            id,
            value: value.to_vec(),
            ttl,
            ends: now + ttl,
        };
        self.places.insert(token, lease);
        Some((token, ttl))
    }

    pub(super) fn standing(&self, token: u64) -> Standing {
        match self.places.first_key_value() {
            Some((first, _)) if *first == token => Standing::First,
            _ if self.places.contains_key(&token) => Standing::Queued,
            _ => Standing::Gone(Loss::Removed),
        }
    }

    /// Starts the lease anew and returns its length; none if it is gone.
    pub(super) fn renew(&mut self, now: Instant, token: u64) -> Option<Duration> {
        let lease = self.places.get_mut(&token)?;
        lease.ends = now + lease.ttl;
        Some(lease.ttl)
    }

    pub(super) fn set_value(&mut self, token: u64, value: &[u8]) {
        if let Some(lease) = self.places.get_mut(&token) {
            lease.value = value.to_vec();
        }
    }

    pub(super) fn token_of(&self, id: CandidateId) -> Option<u64> {
        let (token, _) = self.places.iter().find(|(_, lease)| lease.id == id)?;
        Some(*token)
    }

    /// Removes the place of `token` if it is that of `id`; true if it was.
    pub(super) fn leave(&mut self, id: CandidateId, token: u64) -> bool {
        let own = self.places.get(&token).is_some_and(|lease| lease.id == id);
        if own {
            self.places.remove(&token);
        }
        own
    }

    pub(super) fn leader(&self, scope: &str) -> Option<Leader> {
        let (token, lease) = self.places.first_key_value()?;
        Some(Leader::new(lease.value.as_slice(), *token, scope))
    }

    pub(super) fn is_cut(&self, token: u64) -> bool {
        self.cut.contains(&token)
    }
}

#[cfg(feature = "test-util")]
impl Queue {
    pub(super) fn cut(&mut self, token: u64) {
        self.cut.insert(token);
    }

    pub(super) fn heal(&mut self, token: u64) {
        self.cut.remove(&token);
    }

    pub(super) fn remove(&mut self, token: u64) {
        self.places.remove(&token);
    }

    pub(super) fn len(&self) -> usize {
        self.places.len()
    }

    pub(super) fn tokens(&self) -> Vec<u64> {
        self.places.keys().copied().collect()
    }
}

#[cfg(test)]
mod tests;
