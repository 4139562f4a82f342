//! How far the store was seen to have come.

use std::sync::{Arc, Mutex, PoisonError};

/// How far the store was seen to have come; below that, it went backwards.
#[derive(Debug, Default)]
pub(super) struct Floor {
    highest: Mutex<Seen>,
}

/// A revision of a scope that was seen.
#[derive(Clone, Debug, Default)]
pub(super) struct Seen {
    scope: Option<Arc<str>>,
    pub(super) revision: u64,
}

// ===== impl Floor =====

impl Floor {
    /// Returns how far the store has come for certain. To be asked before a request is
    /// sent: answers to others may come meanwhile.
    pub(super) fn seen(&self) -> Seen {
        let highest = self.highest.lock();
        highest.unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Notes a revision. Another scope begins anew.
    pub(super) fn raise(&self, scope: &Arc<str>, revision: u64) {
        let mut highest = self.highest.lock().unwrap_or_else(PoisonError::into_inner);
        if highest.within(scope) < revision {
            *highest = Seen {
                scope: Some(Arc::clone(scope)),
                revision,
            };
        }
    }
}

// ===== impl Seen =====

impl Seen {
    /// Returns the revision; zero in another scope, whose revisions do not compare.
    pub(super) fn within(&self, scope: &Arc<str>) -> u64 {
        let is_same = self.scope.as_ref() == Some(scope);
        if is_same { self.revision } else { 0 }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_only_rises_within_a_scope_and_begins_anew_in_another() {
        let floor = Floor::default();
        let (one, other): (Arc<str>, Arc<str>) = ("one".into(), "other".into());
        for revision in [5, 9, 7] {
            floor.raise(&one, revision);
        }
        assert_eq!(floor.seen().within(&one), 9);
        assert_eq!(floor.seen().within(&other), 0);
        floor.raise(&other, 3);
        assert_eq!(floor.seen().within(&other), 3);
    }
}
