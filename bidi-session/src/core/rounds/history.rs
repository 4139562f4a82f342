//! What is remembered of ended rounds, to tell strays apart.

use std::collections::VecDeque;

use super::{Answerer, Asked, Stray};

/// Targets that are remembered over all ended rounds; the last round always is.
const MAX_TARGETS: usize = 65_536;
/// Ended rounds that are remembered with their targets.
const MAX_ROUNDS: usize = 1_024;
/// Gaps between the ids that are remembered.
const MAX_RANGES: usize = 1_024;

/// Ended rounds: the last ones with their targets, older ones by id alone.
#[derive(Debug, Default)]
pub(super) struct History {
    ended: VecDeque<(u64, Asked)>,
    targets: usize,
    // Ids that were injected: rising, disjoint, both ends included.
    injected: VecDeque<(u64, u64)>,
}

impl History {
    /// Notes an id, which is above all before it.
    pub(super) fn inject(&mut self, id: u64) {
        match self.injected.back_mut() {
            Some((_, end)) if *end + 1 == id => *end = id,
            _ => self.injected.push_back((id, id)),
        }
        // The oldest gap is forgotten: an id in it then counts as late, not as unknown.
        if self.injected.len() > MAX_RANGES
            && let Some((start, _)) = self.injected.pop_front()
            && let Some(next) = self.injected.front_mut()
        {
            next.0 = start;
        }
    }

    /// Keeps whom an ended round asked.
    pub(super) fn keep(&mut self, id: u64, asked: Asked) {
        self.targets += asked.statuses.len();
        self.ended.push_back((id, asked));
        while self.ended.len() > 1 && (self.targets > MAX_TARGETS || self.ended.len() > MAX_ROUNDS)
        {
            if let Some((_, oldest)) = self.ended.pop_front() {
                self.targets -= oldest.statuses.len();
            }
        }
    }

    /// Says what an answer to a round that is not in flight is.
    pub(super) fn classify(&self, id: u64, by: &mut Answerer) -> Stray {
        let found = self.ended.iter().rev().find(|(ended, _)| *ended == id);
        if let Some((_, asked)) = found {
            return asked.place(by).err().unwrap_or(Stray::Late);
        }
        let after = self.injected.partition_point(|(start, _)| *start <= id);
        let is_known = after > 0 && self.injected[after - 1].1 >= id;
        if is_known {
            Stray::Late
        } else {
            Stray::Unknown
        }
    }
}

#[cfg(test)]
impl History {
    /// Returns how many rounds, targets and ranges are remembered.
    pub(super) fn sizes(&self) -> (usize, usize, usize) {
        (self.ended.len(), self.targets, self.injected.len())
    }
}
