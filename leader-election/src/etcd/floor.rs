//! How far etcd was seen to have come: below that, it went backwards.

use std::{
    collections::BTreeMap,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

use crate::{Error, ErrorKind};

/// The highest revision seen in each life of the store, of which there are few.
#[derive(Debug, Default)]
pub(super) struct Floor(Mutex<BTreeMap<Arc<str>, Mark>>);

#[derive(Clone, Copy, Debug, Default)]
struct Mark {
    revision: u64,
    went_back: bool,
}

// ===== impl Floor =====

impl Floor {
    /// Returns what a read that is sent from now on must reach.
    ///
    /// Once the store went backwards nothing does: others may have been given any of
    /// the revisions that come again, beyond the highest seen here, too.
    pub(super) fn of(&self, scope: &str) -> u64 {
        match self.lock().get(scope) {
            Some(mark) if mark.went_back => u64::MAX,
            Some(mark) => mark.revision,
            None => 0,
        }
    }

    pub(super) fn raise(&self, scope: &Arc<str>, revision: u64) {
        let mut marks = self.lock();
        let mark = marks.entry(Arc::clone(scope)).or_default();
        mark.revision = mark.revision.max(revision);
    }

    /// Notes that the store went backwards: no token of this scope is taken any more.
    ///
    /// `life` is the key whose deletion makes a new scope.
    pub(super) fn went_back(&self, scope: &Arc<str>, life: &[u8]) {
        let mut marks = self.lock();
        let mark = marks.entry(Arc::clone(scope)).or_default();
        if !mark.went_back {
            mark.went_back = true;
            let (revision, life) = (mark.revision, String::from_utf8_lossy(life));
            tracing::error!(%scope, revision, %life, "etcd went back to an older state");
        }
    }

    /// Whether any scope is to be refused.
    pub(super) fn refuses_any(&self) -> bool {
        self.lock().values().any(|mark| mark.went_back)
    }

    /// Says why this scope is refused, if it is.
    pub(super) fn refuse(&self, scope: &str, life: &[u8]) -> Result<(), Error> {
        let mark = self.lock().get(scope).copied().unwrap_or_default();
        if !mark.went_back {
            return Ok(());
        }
        let text = format!(
            "etcd went back to a state before revision {}: delete the key {} and reset what has \
             seen tokens of the scope {scope}",
            mark.revision,
            String::from_utf8_lossy(life),
        );
        Err(Error::new(ErrorKind::Unavailable, text))
    }

    fn lock(&self) -> MutexGuard<'_, BTreeMap<Arc<str>, Mark>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_scope_that_went_back_is_refused_however_far_it_comes() {
        let floor = Floor::default();
        let (old, new) = (Arc::from("old/e"), Arc::from("new/e"));
        floor.raise(&old, 7);
        floor.raise(&old, 5);
        assert_eq!((floor.of("old/e"), floor.of("new/e")), (7, 0));
        assert!(floor.refuse("old/e", b"life").is_ok() && !floor.refuses_any());

        floor.went_back(&old, b"life");
        floor.raise(&old, 1000);
        floor.raise(&new, 3);
        assert_eq!((floor.of("old/e"), floor.of("new/e")), (u64::MAX, 3));
        let refusal = floor.refuse("old/e", b"life").unwrap_err().to_string();
        assert!(refusal.contains("delete the key life"), "{refusal}");
        assert!(floor.refuse("new/e", b"life").is_ok() && floor.refuses_any());
    }

    #[test]
    fn a_life_that_comes_back_is_held_to_what_was_seen_of_it() {
        let floor = Floor::default();
        let (old, new) = (Arc::from("old/e"), Arc::from("new/e"));
        floor.raise(&old, 100);
        floor.raise(&new, 3);
        assert_eq!(floor.of("old/e"), 100);
    }
}
