//! How a candidate gives its place back, and for how long it tries.

use std::time::Duration;

use super::{Action, Candidacy, Stage};
use crate::{Loss, Resigned};

/// How long a place is given back that nobody leads with any more. A store that was away
/// for longer than a lease may start every lease anew when it is back: a place that stays
/// there then blocks the others for as long again.
const LONGEST: Duration = Duration::from_secs(3600);

// ===== impl Candidacy =====

impl Candidacy {
    pub(super) fn lose(&mut self, now: Duration, loss: Loss, out: &mut Vec<Action>) {
        out.push(Action::End(loss));
        match loss {
            // The store has not said that the place is gone.
            Loss::Expired | Loss::Stalled => self.leave(now, out),
            _ => self.finish(Resigned::AlreadyOver, out),
        }
    }

    /// Gives up a campaign. The place is left even if no answer has named it.
    pub(super) fn withdraw(&mut self, now: Duration, out: &mut Vec<Action>) {
        let last_sent = self.renewals.last_sent().or(self.joined_at);
        match (self.stage, last_sent) {
            (Stage::Granting | Stage::Waiting | Stage::Verifying(_), Some(sent)) => {
                self.resign(now, sent.saturating_add(self.timing.ttl), out);
            }
            (Stage::Idle | Stage::Granting, None) => self.finish(Resigned::AlreadyOver, out),
            _ => {}
        }
    }

    pub(super) fn resign(&mut self, now: Duration, until: Duration, out: &mut Vec<Action>) {
        self.stage = Stage::Resigning { until };
        self.begin_to_leave(now, out);
    }

    /// Goes on with what time has ended.
    pub(super) fn leave_on(&mut self, now: Duration, out: &mut Vec<Action>) {
        match self.stage {
            // Where the store has named no place there is none, most likely: callers that
            // campaign again and again while it is away must not pile up tasks.
            Stage::Resigning { until } if now >= until && self.is_placed => self.leave(now, out),
            Stage::Resigning { until } | Stage::Leaving { until } if now >= until => {
                self.finish(Resigned::AlreadyOver, out);
            }
            _ => {}
        }
    }

    /// Takes in that an attempt to leave failed; `finally` where no other can help.
    pub(super) fn not_left(&mut self, now: Duration, finally: bool, out: &mut Vec<Action>) {
        if finally {
            return self.finish(Resigned::Unconfirmed, out);
        }
        let pause = match self.stage {
            Stage::Leaving { .. } => self.backoff.next(),
            _ => self.renewals.pause(),
        };
        self.retry_at = Some(now + pause);
    }

    pub(super) fn finish(&mut self, outcome: Resigned, out: &mut Vec<Action>) {
        self.stage = Stage::Over;
        self.renewals.stop();
        self.retry_at = None;
        out.push(Action::Done(outcome));
    }

    /// Gives the place back although nobody waits for it: the next candidate does.
    fn leave(&mut self, now: Duration, out: &mut Vec<Action>) {
        out.push(Action::Tell(Resigned::AlreadyOver));
        self.stage = Stage::Leaving {
            until: now.saturating_add(LONGEST),
        };
        self.backoff.reset();
        self.begin_to_leave(now, out);
    }

    fn begin_to_leave(&mut self, now: Duration, out: &mut Vec<Action>) {
        self.renewals.stop();
        self.retry_at = Some(now);
        out.push(Action::StopCalls);
    }
}
