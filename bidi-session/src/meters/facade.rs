//! Meters of the `metrics` facade: handles that are made once, with the pool.

use std::fmt;
use std::time::Duration;

use metrics::{Counter, Gauge, Histogram, counter, gauge, histogram};

use super::{Attempt, End, Loss, Step};
use crate::event::Counters;
use crate::state::Phase;

/// Every series of one pool; pools of one process add up.
pub(crate) struct Meters {
    waiting: Gauge,
    connecting: Gauge,
    up: Gauge,
    blocked: Gauge,
    attempts: [Counter; 5],
    disconnects: [Counter; 7],
    reconnect_seconds: Histogram,
    outbox_bytes: Gauge,
    dropped: [Counter; 7],
    rounds: [Counter; 5],
    round_seconds: Histogram,
}

/// Bytes in the outboxes.
#[derive(Clone, Default)]
pub(crate) struct OutboxMeter(Option<Gauge>);

// ===== impl Meters =====

impl Default for Meters {
    fn default() -> Self {
        let state = |state: &'static str| gauge!("bidi_session_workers", "state" => state);
        Self {
            waiting: state("waiting"),
            connecting: state("connecting"),
            up: state("up"),
            blocked: state("blocked"),
            attempts: [
                "connected",
                "unreachable",
                "refused",
                "term_taken",
                "higher_term",
            ]
            .map(|outcome| counter!("bidi_session_attempts_total", "outcome" => outcome)),
            disconnects: [
                "closed",
                "failed",
                "too_large",
                "undecodable",
                "replaced",
                "removed",
                "pool_closed",
            ]
            .map(|reason| counter!("bidi_session_disconnects_total", "reason" => reason)),
            reconnect_seconds: histogram!("bidi_session_reconnect_seconds"),
            outbox_bytes: gauge!("bidi_session_outbox_bytes"),
            dropped: [
                "older_generation",
                "late",
                "duplicate",
                "unknown",
                "not_a_target",
                "discarded",
                "stale_input",
            ]
            .map(|kind| counter!("bidi_session_dropped_total", "kind" => kind)),
            rounds: ["complete", "failed", "timed_out", "closed", "dropped"]
                .map(|outcome| counter!("bidi_session_rounds_total", "outcome" => outcome)),
            round_seconds: histogram!("bidi_session_round_seconds"),
        }
    }
}

impl Meters {
    /// A worker came into the pool.
    pub(crate) fn joined(&self) {
        self.waiting.increment(1.0);
    }

    pub(crate) fn stepped(&self, step: Step) {
        if step.from != step.to {
            if let Some(left) = self.phase(step.from) {
                left.decrement(1.0);
            }
            if let Some(entered) = self.phase(step.to) {
                entered.increment(1.0);
            }
        }
        if let Some(attempt) = step.attempt {
            let [connected, unreachable, refused, term_taken, higher_term] = &self.attempts;
            let counter = match attempt {
                Attempt::Connected => connected,
                Attempt::Unreachable => unreachable,
                Attempt::Refused => refused,
                Attempt::TermTaken => term_taken,
                Attempt::HigherTerm => higher_term,
            };
            counter.increment(1);
        }
        if let Some(loss) = step.lost {
            let [
                closed,
                failed,
                too_large,
                undecodable,
                replaced,
                removed,
                pool_closed,
            ] = &self.disconnects;
            let counter = match loss {
                Loss::Closed => closed,
                Loss::Failed => failed,
                Loss::TooLarge => too_large,
                Loss::Undecodable => undecodable,
                Loss::Replaced => replaced,
                Loss::Removed => removed,
                Loss::PoolClosed => pool_closed,
            };
            counter.increment(1);
        }
        if let Some(away) = step.away {
            self.reconnect_seconds.record(away);
        }
    }

    /// Counts what was dropped between two readings.
    pub(crate) fn dropped(&self, before: Counters, after: Counters) {
        let differences = [
            after.older_generation - before.older_generation,
            after.late - before.late,
            after.duplicate - before.duplicate,
            after.unknown - before.unknown,
            after.not_a_target - before.not_a_target,
            after.discarded - before.discarded,
            after.stale_inputs - before.stale_inputs,
        ];
        for (counter, difference) in self.dropped.iter().zip(differences) {
            if difference > 0 {
                counter.increment(difference);
            }
        }
    }

    pub(crate) fn round_ended(&self, end: End, took: Duration) {
        let [complete, failed, timed_out, closed, dropped] = &self.rounds;
        let counter = match end {
            End::Complete => complete,
            End::Failed => failed,
            End::TimedOut => timed_out,
            End::Closed => closed,
            End::Dropped => dropped,
        };
        counter.increment(1);
        self.round_seconds.record(took);
    }

    pub(crate) fn outbox(&self) -> OutboxMeter {
        OutboxMeter(Some(self.outbox_bytes.clone()))
    }

    fn phase(&self, phase: Phase) -> Option<&Gauge> {
        match phase {
            Phase::Waiting => Some(&self.waiting),
            Phase::Connecting => Some(&self.connecting),
            Phase::Up => Some(&self.up),
            Phase::Blocked => Some(&self.blocked),
            Phase::Removed => None,
        }
    }
}

impl fmt::Debug for Meters {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Meters").finish_non_exhaustive()
    }
}

// ===== impl OutboxMeter =====

impl OutboxMeter {
    pub(crate) fn add(&self, bytes: usize) {
        if let Some(gauge) = &self.0 {
            gauge.increment(bytes as f64);
        }
    }

    pub(crate) fn sub(&self, bytes: usize) {
        if let Some(gauge) = &self.0 {
            gauge.decrement(bytes as f64);
        }
    }
}

impl fmt::Debug for OutboxMeter {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("OutboxMeter").finish_non_exhaustive()
    }
}
