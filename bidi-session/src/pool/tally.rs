//! Counts what a pool drops.

use std::sync::{Mutex, PoisonError};

use crate::event::Counters;

/// The counters of one pool.
#[derive(Debug, Default)]
pub(crate) struct Tally {
    counters: Mutex<Counters>,
}

impl Tally {
    pub(crate) fn add(&self, count: impl FnOnce(&mut Counters)) {
        count(&mut self.counters.lock().unwrap_or_else(PoisonError::into_inner));
    }

    pub(crate) fn read(&self) -> Counters {
        *self.counters.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
