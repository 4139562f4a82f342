//! Barrier rounds: who was asked, who has answered, who can no longer answer.

mod history;
mod roster;

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

pub(crate) use self::roster::{Answerer, Roster};

use self::history::History;
use crate::error::RoundError;
use crate::event::DisconnectReason;
use crate::worker::WorkerId;

/// Failures this close to the first are told with it.
const SETTLE: Duration = Duration::from_millis(20);

/// The rounds of one pool.
#[derive(Debug)]
pub(crate) struct Rounds<In> {
    last: Option<u64>,
    open: BTreeMap<u64, Open<In>>,
    history: History,
    is_closed: bool,
}

/// Why a round cannot begin.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Unfit {
    /// Its id is not above the last.
    Used { last: u64 },
    /// The pool is closed.
    Closed,
}

/// Why an answer belongs to no round in flight.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Stray {
    OlderGeneration,
    Late,
    Duplicate,
    Unknown,
    NotATarget,
}

/// How far a round is.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Progress<In> {
    /// Answers are missing and nothing failed.
    Waiting,
    /// Something failed; who else fails until then is told with it.
    Settling { until: Duration },
    /// The round is over.
    Over(Result<Vec<(WorkerId, In)>, RoundError>),
}

/// Whom a round asked, and what became of that.
#[derive(Debug)]
struct Asked {
    roster: Arc<Roster>,
    // In the roster's order.
    statuses: Vec<Status>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Status {
    Missing,
    Answered,
    Failed,
}

#[derive(Debug)]
struct Open<In> {
    asked: Asked,
    answers: Vec<Option<(WorkerId, In)>>,
    missing: usize,
    failures: Vec<(WorkerId, DisconnectReason)>,
    failed_at: Option<Duration>,
}

// ===== impl Rounds =====

impl<In> Rounds<In> {
    pub(crate) fn new() -> Self {
        Self {
            last: None,
            open: BTreeMap::new(),
            history: History::default(),
            is_closed: false,
        }
    }

    /// Says whether a round of this id could begin.
    pub(crate) fn check(&self, id: u64) -> Result<(), Unfit> {
        match self.last {
            _ if self.is_closed => Err(Unfit::Closed),
            Some(last) if id <= last => Err(Unfit::Used { last }),
            _ => Ok(()),
        }
    }

    /// Begins a round that asks these workers, each on its present session.
    pub(crate) fn begin(&mut self, id: u64, roster: Arc<Roster>) -> Result<(), Unfit> {
        self.check(id)?;
        self.last = Some(id);
        self.history.inject(id);
        self.open.insert(id, Open::new(roster));
        Ok(())
    }

    /// Takes an answer; the id of a round it completes or gives back a stray one.
    pub(crate) fn answer(
        &mut self,
        id: u64,
        by: &mut Answerer,
        message: In,
    ) -> Result<bool, (Stray, In)> {
        let Some(open) = self.open.get_mut(&id) else {
            return Err((self.history.classify(id, by), message));
        };
        match open.take(by) {
            Ok(place) => {
                *place = Some((by.worker.clone(), message));
                Ok(open.missing == 0)
            }
            Err(stray) => Err((stray, message)),
        }
    }

    /// Fails a worker of an ended session in each round that still waits for it;
    /// returns the ids of those rounds.
    pub(crate) fn fail(
        &mut self,
        now: Duration,
        worker: &WorkerId,
        generation: u64,
        reason: &DisconnectReason,
    ) -> Vec<u64> {
        let touched = self.open.iter_mut().filter_map(|(id, open)| {
            let is_hit = open.fail(now, worker, generation, reason);
            is_hit.then_some(*id)
        });
        touched.collect()
    }

    /// Says how far a round is, and ends it when it is over.
    pub(crate) fn progress(&mut self, id: u64, now: Duration) -> Progress<In> {
        let Some(open) = self.open.get(&id) else {
            return Progress::Over(Err(RoundError::Closed));
        };
        match open.failed_at {
            // Answers win over a closed pool: they are complete.
            None if open.missing == 0 => {}
            // Left open: the round itself drops its answers, under no lock.
            _ if self.is_closed => return Progress::Over(Err(RoundError::Closed)),
            None => return Progress::Waiting,
            Some(at) if open.missing > 0 && now < at + SETTLE => {
                return Progress::Settling { until: at + SETTLE };
            }
            Some(_) => {}
        }
        Progress::Over(self.end(id))
    }

    /// Ends a round whose time is up.
    pub(crate) fn expire(&mut self, id: u64) -> Result<Vec<(WorkerId, In)>, RoundError> {
        if self.is_closed && self.open.get(&id).is_some_and(|open| open.missing > 0) {
            return Err(RoundError::Closed);
        }
        self.end(id)
    }

    /// Ends every round that is not complete.
    pub(crate) fn close(&mut self) {
        self.is_closed = true;
    }

    /// Takes a round off the open ones and says how it stands.
    pub(crate) fn end(&mut self, id: u64) -> Result<Vec<(WorkerId, In)>, RoundError> {
        let Some(open) = self.open.remove(&id) else {
            return Err(RoundError::Closed);
        };
        let result = if !open.failures.is_empty() {
            Err(RoundError::Failed {
                failures: open.failures,
            })
        } else if open.missing > 0 {
            Err(RoundError::TimedOut {
                missing: open.asked.missing(),
            })
        } else {
            Ok(open.answers.into_iter().flatten().collect())
        };
        self.history.keep(id, open.asked);
        result
    }
}

// ===== impl Open =====

impl<In> Open<In> {
    fn new(roster: Arc<Roster>) -> Self {
        let missing = roster.members().len();
        Self {
            asked: Asked {
                roster,
                statuses: vec![Status::Missing; missing],
            },
            answers: std::iter::repeat_with(|| None).take(missing).collect(),
            missing,
            failures: Vec::new(),
            failed_at: None,
        }
    }

    /// Notes an answer and returns its place.
    fn take(&mut self, by: &mut Answerer) -> Result<&mut Option<(WorkerId, In)>, Stray> {
        let place = self.asked.place(by)?;
        self.asked.statuses[place] = Status::Answered;
        self.missing -= 1;
        Ok(&mut self.answers[place])
    }

    fn fail(
        &mut self,
        now: Duration,
        worker: &WorkerId,
        generation: u64,
        reason: &DisconnectReason,
    ) -> bool {
        let Some(place) = self.asked.roster.find(worker) else {
            return false;
        };
        let (_, asked) = self.asked.roster.members()[place];
        let status = &mut self.asked.statuses[place];
        if *status != Status::Missing || asked > generation {
            return false;
        }
        *status = Status::Failed;
        self.missing -= 1;
        let first = *self.failed_at.get_or_insert(now);
        // A round that nobody collects yet tells the first ones only.
        if now <= first + SETTLE {
            self.failures.push((worker.clone(), reason.clone()));
        }
        true
    }
}

// ===== impl Asked =====

impl Asked {
    /// Returns the place of a session that has still to answer.
    fn place(&self, by: &mut Answerer) -> Result<usize, Stray> {
        let place = self.roster.place(by).ok_or(Stray::NotATarget)?;
        if self.roster.members()[place].1 != by.generation {
            return Err(Stray::OlderGeneration);
        }
        match self.statuses[place] {
            Status::Missing => Ok(place),
            Status::Answered => Err(Stray::Duplicate),
            Status::Failed => Err(Stray::Late),
        }
    }

    fn missing(&self) -> Vec<WorkerId> {
        let targets = self.roster.members().iter().zip(&self.statuses);
        let missing = targets.filter(|(_, status)| **status == Status::Missing);
        missing.map(|((worker, _), _)| worker.clone()).collect()
    }
}

#[cfg(test)]
mod model;
#[cfg(test)]
mod tests;
