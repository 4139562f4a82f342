//! The controller's side: what it says, and what it makes of the answer.

use super::{Hello, Refusal, Welcome};
use crate::connector::{Attempt, OpenClass, OpenError};

// ===== impl Hello =====

impl Hello {
    /// Returns what an attempt says.
    pub(crate) fn of(attempt: &Attempt) -> Self {
        Self {
            scope: attempt.scope.clone(),
            term: attempt.term,
            pool: attempt.pool,
            generation: attempt.generation,
            worker: attempt.worker.as_str().to_owned(),
            incarnation: attempt.incarnation,
        }
    }
}

// ===== impl Welcome =====

impl Welcome {
    /// Checks that the worker that is meant answered, and returns its incarnation.
    pub(crate) fn check(self, attempt: &Attempt) -> Result<u64, OpenError> {
        let refuse = |refusal: Refusal| {
            let text = refusal.to_string();
            Err(OpenError::new(OpenClass::Refused, text))
        };
        if self.worker != attempt.worker.as_str() {
            let actual = self.worker;
            return refuse(Refusal::WrongWorker { actual });
        }
        let actual = self.incarnation;
        if attempt
            .incarnation
            .is_some_and(|expected| expected != actual)
        {
            return refuse(Refusal::WrongIncarnation { actual });
        }
        Ok(actual)
    }
}

// ===== impl Refusal =====

impl Refusal {
    /// Says what the pool of this term does about it.
    pub(crate) fn class(&self, term: u64) -> OpenClass {
        match self {
            Self::LowerTerm { highest } if *highest > term => OpenClass::HigherTerm(*highest),
            // Heals by itself within moments, and the next attempt has a higher generation.
            Self::StaleGeneration => OpenClass::Unreachable,
            Self::TermTaken => OpenClass::TermTaken,
            _ => OpenClass::Refused,
        }
    }
}
