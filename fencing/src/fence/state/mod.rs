//! What a fence decides, without files, threads or a clock.
//!
//! A *term* is one mark within one era; eras count the resets. Terms are totally
//! ordered, so that an admission from before a reset is below everything after it.
//!
//! The promise: once [`State::step`] has admitted a token, no admission of a lower
//! term lives, and none is made any more. The admissions are counted by the [`Gate`],
//! which lets equals in without asking; the state alone opens and closes it.

use std::sync::Arc;
use std::time::Duration;

use crate::fence::error::{AdmitError, StaleToken, StorageError, WrongScope};
use crate::fence::gate::Gate;
use crate::fence::mark::Mark;
use crate::token::{Scope, Token};

/// One mark within one era.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Term {
    pub(super) era: u64,
    pub(super) number: u64,
}

/// Number of an attempt to save; attempts run one after another.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Attempt(u64);

/// How far one call has come, kept between its steps.
#[derive(Debug, Default)]
pub(super) struct Progress {
    /// The attempt to save that this call waits for.
    attempt: Option<Attempt>,
    /// When this call gives up waiting for lower admissions.
    until: Option<Duration>,
}

/// What a call is to do next.
#[derive(Debug)]
pub(super) enum Step {
    /// Counted by the gate; to be given back there.
    Admitted,
    Refused(AdmitError),
    /// Wait for a change, but not beyond this instant.
    Wait(Option<Duration>),
}

/// The decisions of one fence.
#[derive(Debug)]
pub(super) struct State {
    mark: Mark,
    era: u64,
    /// The term that is known to survive a crash.
    saved: Term,
    is_durable: bool,
    is_wanted: bool,
    /// The attempt that runs, and the term it saves.
    saving: Option<(Attempt, Term)>,
    /// The latest attempt that has begun.
    latest: Attempt,
    failure: Option<(Attempt, StorageError)>,
    /// Open for the present term, or closed.
    gate: Arc<Gate>,
}

// ===== impl State =====

impl State {
    /// A fence that remembers nothing beyond its own life.
    pub(super) fn forgetful() -> Self {
        Self::new(Mark::default(), false)
    }

    /// A fence whose `mark` is safely stored already.
    pub(super) fn durable(mark: Mark) -> Self {
        Self::new(mark, true)
    }

    fn new(mark: Mark, is_durable: bool) -> Self {
        let saved = Term {
            era: 0,
            number: mark.number,
        };
        Self {
            mark,
            era: 0,
            saved,
            is_durable,
            is_wanted: false,
            saving: None,
            latest: Attempt(0),
            failure: None,
            gate: Arc::new(Gate::new()),
        }
    }

    pub(super) fn mark(&self) -> &Mark {
        &self.mark
    }

    pub(super) fn gate(&self) -> &Arc<Gate> {
        &self.gate
    }

    /// The present term: what is below it is stale.
    pub(super) fn term(&self) -> Term {
        Term {
            era: self.era,
            number: self.mark.number,
        }
    }

    /// Takes `token` as far as it gets now. `patience` bounds the wait for lower
    /// admissions, counted from the first step that finds only them in the way.
    pub(super) fn step(
        &mut self,
        token: &Token,
        progress: &mut Progress,
        now: Duration,
        patience: Duration,
    ) -> Step {
        if let Err(refusal) = self.present(token) {
            return Step::Refused(refusal);
        }
        match self.save(progress) {
            Ok(true) => {}
            Ok(false) => return Step::Wait(None),
            Err(failure) => return Step::Refused(AdmitError::Storage(failure)),
        }
        if self.gate.is_open() {
            self.gate.join();
            return Step::Admitted;
        }
        let lower = self.gate.count();
        if lower == 0 {
            self.gate.open(token.scope(), token.number());
            return Step::Admitted;
        }
        let until = *progress.until.get_or_insert(now.saturating_add(patience));
        if now < until {
            return Step::Wait(Some(until));
        }
        let lower = usize::try_from(lower).unwrap_or(usize::MAX);
        let token = token.clone();
        Step::Refused(AdmitError::Busy { token, lower })
    }

    /// Starts a new era: no token of an earlier one counts any more.
    pub(super) fn reset(&mut self, scope: Scope) {
        self.gate.close();
        self.era += 1;
        self.mark = Mark {
            scope: Some(scope),
            number: 0,
        };
        if !self.is_durable {
            self.saved = self.term();
        }
    }

    /// Says whether the present term is saved; if not, joins an attempt to save it.
    pub(super) fn save(&mut self, progress: &mut Progress) -> Result<bool, StorageError> {
        if self.saved == self.term() {
            return Ok(true);
        }
        if let (Some(attempt), Some((failed, failure))) = (progress.attempt, &self.failure)
            && *failed >= attempt
        {
            return Err(failure.clone());
        }
        progress.attempt = Some(self.join());
        Ok(false)
    }

    /// Begins an attempt to save, if one is wanted and none runs.
    pub(super) fn begin_save(&mut self) -> Option<Mark> {
        if !self.wants_save() {
            return None;
        }
        self.is_wanted = false;
        self.latest = self.next();
        self.saving = Some((self.latest, self.term()));
        Some(self.mark.clone())
    }

    /// Ends the attempt that runs.
    pub(super) fn end_save(&mut self, outcome: Result<(), StorageError>) {
        let Some((attempt, term)) = self.saving.take() else {
            return;
        };
        match outcome {
            Ok(()) => self.saved = term,
            Err(failure) => self.failure = Some((attempt, failure)),
        }
    }

    /// Says whether an attempt to save is wanted and does not run yet.
    pub(super) fn wants_save(&self) -> bool {
        self.is_wanted && self.saving.is_none()
    }

    /// Refuses a stale or foreign token; a higher one becomes the mark.
    fn present(&mut self, token: &Token) -> Result<(), AdmitError> {
        token.validate()?;
        let scope = self
            .mark
            .scope
            .get_or_insert_with(|| token.shared_scope().clone());
        if scope != token.shared_scope() {
            let (token, scope) = (token.clone(), scope.as_str().to_owned());
            return Err(AdmitError::WrongScope(WrongScope { token, scope }));
        }
        let highest = self.mark.number;
        if token.number() < highest {
            let token = token.number();
            return Err(AdmitError::Stale(StaleToken { token, highest }));
        }
        if token.number() > highest {
            self.gate.close();
        }
        self.mark.number = token.number();
        if !self.is_durable {
            self.saved = self.term();
        }
        Ok(())
    }

    /// The attempt that will cover the present term; asks for it unless it runs.
    fn join(&mut self) -> Attempt {
        match self.saving {
            Some((attempt, term)) if term == self.term() => attempt,
            _ => {
                self.is_wanted = true;
                self.next()
            }
        }
    }

    fn next(&self) -> Attempt {
        Attempt(self.latest.0 + 1)
    }
}

#[cfg(test)]
mod tests;
