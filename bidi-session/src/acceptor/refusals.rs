//! What the log says of streams that are refused: each kind once a minute.

use std::time::Duration;

use crate::handshake::Refusal;

/// Between lines of one kind.
const PAUSE: Duration = Duration::from_secs(60);

/// Decides which refusals are told.
#[derive(Debug, Default)]
pub(super) struct Refusals {
    // Of each kind, when it was told last, and how many came since.
    kinds: [(Option<Duration>, u64); 7],
}

// ===== impl Refusals =====

impl Refusals {
    /// Notes a refusal; returns how many of its kind came since the last line, this one
    /// included, if a line is due.
    pub(super) fn note(&mut self, now: Duration, refusal: &Refusal) -> Option<u64> {
        let (told_at, count) = &mut self.kinds[kind_of(refusal)];
        *count += 1;
        if told_at.is_some_and(|at| now < at + PAUSE) {
            return None;
        }
        *told_at = Some(now);
        Some(std::mem::take(count))
    }
}

fn kind_of(refusal: &Refusal) -> usize {
    match refusal {
        Refusal::LowerTerm { .. } => 0,
        Refusal::WrongScope => 1,
        Refusal::WrongWorker { .. } => 2,
        Refusal::WrongIncarnation { .. } => 3,
        Refusal::StaleGeneration => 4,
        Refusal::TermTaken => 5,
        Refusal::Malformed(_) => 6,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_kind_is_told_at_once_and_then_once_a_minute_with_its_count() {
        let mut refusals = Refusals::default();
        let stale = Refusal::LowerTerm { highest: 7 };
        let at = Duration::from_secs;
        assert_eq!(refusals.note(at(0), &stale), Some(1));
        assert_eq!(refusals.note(at(1), &Refusal::WrongScope), Some(1));
        // What it says in detail does not matter.
        let staler = Refusal::LowerTerm { highest: 8 };
        assert_eq!(refusals.note(at(59), &staler), None);
        assert_eq!(refusals.note(at(60), &stale), Some(2));
        assert_eq!(refusals.note(at(60), &Refusal::WrongScope), None);
        assert_eq!(refusals.note(at(61), &Refusal::WrongScope), Some(2));
    }
}
