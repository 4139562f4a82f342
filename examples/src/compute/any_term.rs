//! A worker without the check of terms, to show that it is missed: each session has an
//! acceptor of its own, so none is refused or ended for another.

use bidi_session::tonic::Acceptor;

/// Makes an acceptor for each session.
#[derive(Clone, Debug)]
pub struct AnyTerm {
    worker: String,
    incarnation: u64,
    scope: String,
}

// ===== impl AnyTerm =====

impl AnyTerm {
    /// Acceptors of this life of a worker; tokens are of `scope`.
    #[must_use]
    pub fn new(worker: &str, incarnation: u64, scope: &str) -> Self {
        Self {
            worker: worker.to_owned(),
            incarnation,
            scope: scope.to_owned(),
        }
    }

    pub(super) fn acceptor(&self) -> Acceptor {
        Acceptor::new(self.worker.clone(), self.incarnation, 0).with_scope(self.scope.clone())
    }
}
