//! Counts what a pool drops.

use std::sync::{Mutex, PoisonError};

use crate::event::Counters;
use crate::meters::Meters;

/// The counters of one pool.
#[derive(Debug, Default)]
pub(crate) struct Tally {
    counters: Mutex<Counters>,
    pub(crate) meters: Meters,
}

impl Tally {
    pub(crate) fn add(&self, count: impl FnOnce(&mut Counters)) {
        let (before, after) = {
            let mut counters = self.counters.lock().unwrap_or_else(PoisonError::into_inner);
            let before = *counters;
            count(&mut counters);
            (before, *counters)
        };
        self.meters.dropped(before, after);
    }

    pub(crate) fn read(&self) -> Counters {
        *self.counters.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
