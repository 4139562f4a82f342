//! How far etcd was seen to have come: below that, it went backwards.

use std::{
    collections::BTreeMap,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

use crate::{Error, ErrorKind};

/// How far etcd was seen to have come, in each life of it: there are few.
#[derive(Debug, Default)]
pub(super) struct Floor {
    marks: Mutex<Seen>,
}

/// What was known of each scope at one moment.
#[derive(Clone, Debug, Default)]
pub(super) struct Seen(BTreeMap<Arc<str>, Mark>);

#[derive(Clone, Copy, Debug, Default)]
struct Mark {
    revision: u64,
    went_back: bool,
}

// ===== impl Floor =====

impl Floor {
    /// Returns how far etcd has come for certain. To be asked before a request is sent:
    /// answers to others may come meanwhile.
    pub(super) fn seen(&self) -> Seen {
        self.lock().clone()
    }

    /// Notes a revision of a scope.
    pub(super) fn raise(&self, scope: &Arc<str>, revision: u64) {
        let mut marks = self.lock();
        let mark = marks.0.entry(Arc::clone(scope)).or_default();
        mark.revision = mark.revision.max(revision);
    }

    /// Notes that etcd went backwards: no token of this scope is taken any more.
    ///
    /// `life` is the key whose deletion makes a new scope.
    pub(super) fn went_back(&self, scope: &Arc<str>, life: &[u8]) {
        let mut marks = self.lock();
        let mark = marks.0.entry(Arc::clone(scope)).or_default();
        if !mark.went_back {
            mark.went_back = true;
            let (revision, life) = (mark.revision, String::from_utf8_lossy(life));
            tracing::error!(%scope, revision, %life, "etcd went back to an older state");
        }
    }

    fn lock(&self) -> MutexGuard<'_, Seen> {
        self.marks.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

// ===== impl Seen =====

impl Seen {
    /// Returns the revision that an answer must reach; zero for a scope that is new.
    ///
    /// No answer does once etcd went backwards: others may have been given any of the
    /// revisions that come again, those beyond the highest seen here too.
    pub(super) fn within(&self, scope: &str) -> u64 {
        match self.0.get(scope) {
            Some(mark) if mark.went_back => u64::MAX,
            Some(mark) => mark.revision,
            None => 0,
        }
    }

    /// Whether any scope is refused.
    pub(super) fn refuses_any(&self) -> bool {
        self.0.values().any(|mark| mark.went_back)
    }

    /// Says why this scope is refused, if it is.
    pub(super) fn refuse(&self, scope: &str, life: &[u8]) -> Result<(), Error> {
        let mark = self.0.get(scope).copied().unwrap_or_default();
        if !mark.went_back {
            return Ok(());
        }
        let text = format!(
            "etcd went back to a state before revision {}: delete the key {}, and reset what has \
             seen tokens of the scope {scope}",
            mark.revision,
            String::from_utf8_lossy(life),
        );
        Err(Error::new(ErrorKind::Unavailable, text))
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
        assert_eq!(floor.seen().within("one"), 9);
        assert_eq!(floor.seen().within("other"), 0);
        floor.raise(&other, 3);
        assert_eq!(floor.seen().within("other"), 3);
        // A life that comes back is held to what was seen of it.
        assert_eq!(floor.seen().within("one"), 9);
    }

    #[test]
    fn a_scope_that_went_back_is_refused_however_far_it_comes() {
        let floor = Floor::default();
        let (old, new): (Arc<str>, Arc<str>) = ("old".into(), "new".into());
        floor.raise(&old, 7);
        let before = floor.seen();
        assert!(before.refuse("old", b"life").is_ok() && !before.refuses_any());

        floor.went_back(&old, b"life");
        floor.raise(&old, 1000);
        floor.raise(&new, 3);
        let seen = floor.seen();
        assert_eq!((seen.within("old"), seen.within("new")), (u64::MAX, 3));
        let refusal = seen.refuse("old", b"life").unwrap_err().to_string();
        assert!(refusal.contains("delete the key life"), "{refusal}");
        assert!(seen.refuse("new", b"life").is_ok() && seen.refuses_any());
    }
}
