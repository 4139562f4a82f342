//! Whom rounds ask; those that ask the same, one after the other, share it.

use std::collections::HashMap;
use std::sync::OnceLock;

use crate::worker::WorkerId;

/// Workers, each named once and on one session, in the order of injection.
#[derive(Debug, Default)]
pub(crate) struct Roster {
    members: Vec<(WorkerId, u64)>,
    // Only made for one whose place is not known: thousands are hashed for it.
    places: OnceLock<HashMap<WorkerId, usize>>,
}

/// A session that answers.
#[derive(Debug)]
pub(crate) struct Answerer {
    pub(super) worker: WorkerId,
    pub(super) generation: u64,
    // Its place in the last round, and most likely in the next.
    place: usize,
}

// ===== impl Roster =====

impl Roster {
    pub(crate) fn new(members: Vec<(WorkerId, u64)>) -> Self {
        Self {
            members,
            places: OnceLock::new(),
        }
    }

    /// Returns the workers and the generations of their sessions.
    pub(crate) fn members(&self) -> &[(WorkerId, u64)] {
        &self.members
    }

    /// Returns the place of a worker.
    pub(super) fn find(&self, worker: &WorkerId) -> Option<usize> {
        let places = self.places.get_or_init(|| {
            let names = self.members.iter().map(|(worker, _)| worker.clone());
            names.zip(0..).collect()
        });
        places.get(worker).copied()
    }

    /// Returns the place of a session's worker, which may be there on another session.
    pub(super) fn place(&self, by: &mut Answerer) -> Option<usize> {
        let is_there = |(worker, _): &(WorkerId, u64)| worker.is_same(&by.worker);
        if !self.members.get(by.place).is_some_and(is_there) {
            by.place = self.find(&by.worker)?;
        }
        Some(by.place)
    }
}

// ===== impl Answerer =====

impl Answerer {
    pub(crate) fn new(worker: WorkerId, generation: u64) -> Self {
        Self {
            worker,
            generation,
            place: 0,
        }
    }

    pub(crate) fn worker(&self) -> &WorkerId {
        &self.worker
    }

    pub(crate) fn generation(&self) -> u64 {
        self.generation
    }
}
