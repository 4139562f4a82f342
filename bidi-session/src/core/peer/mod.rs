//! The life of one worker in the pool.
//!
//! `Resting -> Dialing(g) -> Up(g) -> Resting -> ..`, and `Gone` from anywhere. Inputs
//! carry the generation they belong to; those of another one change nothing and
//! are counted.

use std::sync::Arc;
use std::time::Duration;

use crate::connector::{OpenClass, OpenError};
use crate::core::backoff::Backoff;
use crate::event::{DisconnectReason, EventKind};
use crate::state::{Phase, WorkerState};

/// Attempts of one worker start at least this far apart, however healthy its sessions.
const MIN_SPACING: Duration = Duration::from_millis(100);

/// A session that ended so soon was brief: one after the other are no health, whatever
/// they brought.
const BRIEF: Duration = Duration::from_secs(1);

/// The settings of a peer.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Pace {
    pub(crate) backoff_base: Duration,
    pub(crate) backoff_cap: Duration,
    /// Between attempts that are refused.
    pub(crate) blocked_retry: Duration,
    /// A session that lived this long was healthy.
    pub(crate) stable_after: Duration,
}

/// The state machine of one worker.
#[derive(Debug)]
pub(crate) struct Peer {
    pace: Pace,
    backoff: Backoff,
    stage: Stage,
    // When the session began, or since when there is none.
    since: Duration,
    // The highest generation so far; zero before the first attempt.
    generation: u64,
    dialed_at: Option<Duration>,
    // Whether the last session was.
    was_brief: bool,
    last_error: Option<Arc<str>>,
    stale_inputs: u64,
}

/// Where a worker is in its life.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Stage {
    Resting { until: Duration, is_blocked: bool },
    Dialing,
    Up { has_spoken: bool },
    Gone,
}

/// What happened.
#[derive(Clone, Debug)]
pub(crate) enum Input {
    /// An attempt starts; its generation is above all before it.
    Begun { generation: u64 },
    /// The attempt opened a stream.
    Opened {
        generation: u64,
        incarnation: Option<u64>,
    },
    /// The attempt failed.
    Failed { generation: u64, error: OpenError },
    /// The stream ended.
    Ended {
        generation: u64,
        reason: DisconnectReason,
    },
    /// The worker is elsewhere from now on.
    Replaced,
    /// The worker leaves the pool, for this reason.
    Removed(DisconnectReason),
}

/// Events to be told, in order, each with its generation.
pub(crate) type Told<In> = Vec<(u64, EventKind<In>)>;

// ===== impl Peer =====

impl Peer {
    /// Starts the life of a worker whose first attempt is due now.
    pub(crate) fn new(pace: Pace, seed: u64, now: Duration) -> Self {
        Self {
            pace,
            backoff: Backoff::new(pace.backoff_base, pace.backoff_cap, seed),
            stage: Stage::Resting {
                until: now,
                is_blocked: false,
            },
            since: now,
            generation: 0,
            dialed_at: None,
            was_brief: false,
            last_error: None,
            stale_inputs: 0,
        }
    }

    /// Returns how many attempts have failed since the last healthy session.
    pub(crate) fn failures(&self) -> u32 {
        self.backoff.failures()
    }

    /// Sets the delay of the next step, if that is a failure, in place of the pace's.
    pub(crate) fn offer_delay(&mut self, delay: Option<Duration>) {
        self.backoff.offer(delay);
    }

    pub(crate) fn stage(&self) -> Stage {
        self.stage
    }

    /// Returns what is known of the worker.
    pub(crate) fn state(&self, now: Duration) -> WorkerState {
        let retry_in = match self.stage {
            Stage::Resting { until, .. } => Some(until.saturating_sub(now)),
            _ => None,
        };
        WorkerState {
            phase: self.phase(),
            generation: self.generation,
            elapsed: now.saturating_sub(self.since),
            attempts: self.backoff.failures(),
            last_error: self.last_error.clone(),
            retry_in,
        }
    }

    pub(crate) fn phase(&self) -> Phase {
        match self.stage {
            Stage::Resting {
                is_blocked: false, ..
            } => Phase::Waiting,
            Stage::Resting {
                is_blocked: true, ..
            } => Phase::Blocked,
            Stage::Dialing => Phase::Connecting,
            Stage::Up { .. } => Phase::Up,
            Stage::Gone => Phase::Removed,
        }
    }

    /// Returns the generation of the session, while there is one.
    pub(crate) fn session(&self) -> Option<u64> {
        matches!(self.stage, Stage::Up { .. }).then_some(self.generation)
    }

    /// Says whether this attempt or session is still the worker's own.
    pub(crate) fn is_live(&self, generation: u64) -> bool {
        self.generation == generation && matches!(self.stage, Stage::Dialing | Stage::Up { .. })
    }

    /// Takes the number of inputs of ended sessions since the last call.
    pub(crate) fn take_stale_inputs(&mut self) -> u64 {
        std::mem::take(&mut self.stale_inputs)
    }

    /// Notes `count` messages of a session; says whether they still count.
    pub(crate) fn hear(&mut self, generation: u64, count: usize) -> bool {
        match &mut self.stage {
            Stage::Up { has_spoken } if self.generation == generation => {
                *has_spoken |= count > 0;
                true
            }
            _ => {
                self.stale_inputs += count as u64;
                false
            }
        }
    }

    /// Takes an input and returns what is to be told of it.
    pub(crate) fn step<In>(&mut self, now: Duration, input: Input) -> Told<In> {
        match (self.stage, input) {
            (Stage::Gone, Input::Replaced | Input::Removed(_)) => Vec::new(),
            (Stage::Resting { .. }, Input::Begun { generation })
                if generation > self.generation =>
            {
                self.generation = generation;
                self.dialed_at = Some(now);
                self.enter(now, Stage::Dialing);
                Vec::new()
            }
            (
                Stage::Dialing,
                Input::Opened {
                    generation,
                    incarnation,
                },
            ) if generation == self.generation => {
                self.enter(now, Stage::Up { has_spoken: false });
                vec![(generation, EventKind::Connected { incarnation })]
            }
            (Stage::Dialing, Input::Failed { generation, error })
                if generation == self.generation =>
            {
                vec![(generation, self.fail(now, error))]
            }
            (Stage::Up { has_spoken }, Input::Ended { generation, reason })
                if generation == self.generation =>
            {
                self.end(now, has_spoken, &reason);
                vec![(generation, EventKind::Disconnected { reason })]
            }
            (stage, Input::Replaced) => {
                self.backoff.reset();
                self.was_brief = false;
                self.last_error = None;
                self.rest(now, Duration::ZERO, false);
                self.disconnected(stage, DisconnectReason::Replaced)
            }
            (stage, Input::Removed(reason)) => {
                self.enter(now, Stage::Gone);
                let mut told = self.disconnected(stage, reason);
                told.push((self.generation, EventKind::Removed));
                told
            }
            _ => {
                self.stale_inputs += 1;
                Vec::new()
            }
        }
    }

    fn fail<In>(&mut self, now: Duration, error: OpenError) -> EventKind<In> {
        self.last_error = Some(error.text.as_str().into());
        let delay = self.backoff.fail();
        let is_blocked = error.class.is_blocked();
        let delay = if is_blocked {
            self.pace.blocked_retry
        } else {
            delay
        };
        self.rest(now, delay, is_blocked);
        match error.class {
            OpenClass::HigherTerm(term) => EventKind::HigherTerm { term },
            _ => EventKind::AttemptFailed {
                error,
                attempts: self.backoff.failures(),
            },
        }
    }

    fn end(&mut self, now: Duration, has_spoken: bool, reason: &DisconnectReason) {
        self.last_error = Some(reason.to_string().into());
        // Only proven health forgets the failures: a peer that accepts and hangs
        // up at once would otherwise be dialed in a hot loop. One that says a word first, and
        // does so again and again, as well; a single loss is made good at once.
        let lived = now.saturating_sub(self.since);
        let is_brief = lived < BRIEF;
        let was_brief = std::mem::replace(&mut self.was_brief, is_brief);
        let is_useful = has_spoken && !(is_brief && was_brief);
        let is_healthy = is_useful || lived >= self.pace.stable_after;
        let delay = if is_healthy {
            self.backoff.reset();
            Duration::ZERO
        } else {
            self.backoff.fail()
        };
        self.rest(now, delay, false);
    }

    fn disconnected<In>(&self, stage: Stage, reason: DisconnectReason) -> Told<In> {
        match stage {
            Stage::Up { .. } => vec![(self.generation, EventKind::Disconnected { reason })],
            _ => Vec::new(),
        }
    }

    fn rest(&mut self, now: Duration, delay: Duration, is_blocked: bool) {
        let earliest = self.dialed_at.map_or(now, |at| at + MIN_SPACING);
        let until = now.saturating_add(delay).max(earliest);
        self.enter(now, Stage::Resting { until, is_blocked });
    }

    fn enter(&mut self, now: Duration, stage: Stage) {
        let is_up = |stage| matches!(stage, Stage::Up { .. });
        if is_up(self.stage) != is_up(stage) || stage == Stage::Gone {
            self.since = now;
        }
        self.stage = stage;
    }
}

#[cfg(test)]
mod model;
#[cfg(test)]
mod tests;
