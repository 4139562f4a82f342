//! The pure core: one candidate's way from joining to the end.
//!
//! `Idle -> Granting -> Waiting <-> Verifying -> Leading -> Resigning -> Leaving -> Over`.
//! It does no I/O and reads no clock: it is told the time and what happened,
//! and answers with what to do. The rules are those of etcd's Go recipe
//! (`client/v3/concurrency/election.go`) with its gaps closed: the own place is
//! verified after the wait, the lease counts from the send, and a place that is
//! lost while waiting is never mistaken for a win.

mod action;
mod leaving;
mod renewals;

use std::time::Duration;

pub(crate) use self::action::{Action, Call, Input};
use self::renewals::{Again, Renewals};
use crate::{Error, Loss, Renewal, Resigned, Standing, backoff::Backoff, config::Timing};

/// Longest pause before a call that failed is repeated: long leases must not make for a
/// late return of a store that was away.
const MAX_BACKOFF: Duration = Duration::from_secs(1);

/// One candidate.
#[derive(Debug)]
pub(crate) struct Candidacy {
    timing: Timing,
    stage: Stage,
    renewals: Renewals,
    /// When the first request of the present place was sent.
    joined_at: Option<Duration>,
    /// When the call that the stage is made of is to be repeated.
    retry_at: Option<Duration>,
    backoff: Backoff,
    /// The store has named the present place.
    is_placed: bool,
    /// Renewals were withheld since the last confirmed one.
    withheld: bool,
    /// Renewals failed since then.
    failed: bool,
}

#[derive(Clone, Copy, Debug, PartialEq)]
enum Stage {
    Idle,
    Granting,
    Waiting,
    Verifying(Option<Win>),
    Leading {
        deadline: Duration,
    },
    /// The place is given back, and its holder can be asked how that went.
    Resigning {
        until: Duration,
    },
    /// The leadership is over, and the place may still be there and block others.
    Leaving {
        until: Duration,
    },
    Over,
}

/// The place was seen to be the first; a later renewal has to confirm it.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Win {
    /// Renewals from this one on were sent after the win was known.
    first_renewal: u64,
    /// The end of the takeover delay; a renewal sent then has to confirm it anew.
    hold_until: Option<Duration>,
    deadline: Option<Duration>,
}

// ===== impl Candidacy =====

impl Candidacy {
    pub(crate) fn new(timing: Timing, seed: u64) -> Self {
        Self {
            timing,
            stage: Stage::Idle,
            renewals: Renewals::new(timing, seed),
            joined_at: None,
            retry_at: None,
            backoff: Backoff::new(timing.renew_timeout.min(MAX_BACKOFF), seed),
            is_placed: false,
            withheld: false,
            failed: false,
        }
    }

    /// Takes in what happened at `now` and returns what to do, in order.
    pub(crate) fn step(&mut self, now: Duration, input: Input) -> Vec<Action> {
        let mut out = Vec::new();
        // Time comes first: nothing that arrives at or after the deadline saves
        // the leadership.
        self.expire(now, &mut out);
        self.accept(now, input, &mut out);
        self.announce(now, &mut out);
        self.due(now, &mut out);
        out
    }

    pub(crate) fn is_over(&self) -> bool {
        self.stage == Stage::Over
    }

    pub(crate) fn is_leading(&self) -> bool {
        matches!(self.stage, Stage::Leading { .. })
    }

    /// Returns when `step` must be called at the latest, always after `now`.
    pub(crate) fn next_wake(&self) -> Option<Duration> {
        let stage = match self.stage {
            Stage::Leading { deadline } => Some(deadline),
            Stage::Resigning { until } | Stage::Leaving { until } => Some(until),
            Stage::Verifying(Some(win)) => win.hold_until,
            _ => None,
        };
        let renewal = self.renewals.next_due();
        [stage, renewal, self.retry_at].into_iter().flatten().min()
    }

    fn accept(&mut self, now: Duration, input: Input, out: &mut Vec<Action>) {
        match (self.stage, input) {
            (Stage::Idle, Input::Start) => {
                self.stage = Stage::Granting;
                self.retry_at = Some(now);
            }
            (Stage::Granting, Input::Joined { ttl }) => self.joined(now, ttl, out),
            (Stage::Verifying(None), Input::Verified(standing)) => {
                self.verified(now, standing, out);
            }
            (Stage::Waiting, Input::Waited(standing)) => self.waited(now, standing, out),
            (Stage::Leading { .. }, Input::Waited(Standing::Gone(loss))) => {
                self.lose(now, loss, out);
            }
            (Stage::Leading { .. }, Input::Waited(_)) => {
                self.retry_at = Some(now + self.backoff.next());
            }
            (_, Input::Renewed { attempt, answer }) => self.renewed(now, attempt, answer, out),
            (_, Input::RenewalFailed { attempt, error }) => {
                let again = match error {
                    _ if !self.is_leading() => Again::LaterAndLater,
                    Some(_) => Again::AfterTimeout,
                    None => Again::Soon,
                };
                self.failed |= self.is_leading();
                self.renewals.failed(now, attempt, again);
                self.refused(now, error, out);
            }
            (Stage::Leading { .. }, Input::Withheld { attempt }) => {
                self.withheld = true;
                self.renewals.failed(now, attempt, Again::Soon);
            }
            (_, Input::Failed { call, error }) => self.failed(now, call, error, out),
            (Stage::Leading { deadline }, Input::Ended) => self.resign(now, deadline, out),
            (Stage::Resigning { .. } | Stage::Leaving { .. }, Input::Left) => {
                self.finish(Resigned::Released, out);
            }
            (_, Input::Withdrawn) => self.withdraw(now, out),
            // An answer to a question of an earlier stage.
            _ => {}
        }
    }

    fn joined(&mut self, now: Duration, ttl: Duration, out: &mut Vec<Action>) {
        self.is_placed = true;
        let fits = self.timing.check(ttl);
        self.timing.ttl = ttl;
        if let Err(error) = fits {
            out.push(Action::Fail(error));
            return self.withdraw(now, out);
        }
        // An earlier attempt without an answer may be the one that was granted.
        self.renewals.start(self.joined_at.unwrap_or(now));
        self.verify(now);
    }

    fn verify(&mut self, now: Duration) {
        self.stage = Stage::Verifying(None);
        self.retry_at = Some(now);
    }

    fn verified(&mut self, now: Duration, standing: Standing, out: &mut Vec<Action>) {
        match standing {
            Standing::First => {
                let delay = self.timing.takeover_delay;
                // Whether or not it saw one go: a predecessor may have gone while it joined.
                self.confirm(now, (!delay.is_zero()).then(|| now + delay), out);
            }
            Standing::Queued => {
                self.stage = Stage::Waiting;
                self.retry_at = Some(now);
            }
            Standing::Gone(loss) => self.requeue(now, loss, out),
        }
    }

    /// Asks for a renewal that confirms the win.
    fn confirm(&mut self, now: Duration, hold_until: Option<Duration>, out: &mut Vec<Action>) {
        let attempt = self.renewals.send(now);
        let limit = self.timing.renew_timeout;
        out.push(Action::Renew { attempt, limit });
        self.stage = Stage::Verifying(Some(Win {
            first_renewal: attempt,
            hold_until,
            deadline: None,
        }));
    }

    fn waited(&mut self, now: Duration, standing: Standing, out: &mut Vec<Action>) {
        match standing {
            // It may come from a watch that lags: ask before believing it.
            Standing::First => self.verify(now),
            Standing::Queued => self.retry_at = Some(now + self.backoff.next()),
            Standing::Gone(loss) => self.requeue(now, loss, out),
        }
    }

    fn renewed(&mut self, now: Duration, attempt: u64, answer: Renewal, out: &mut Vec<Action>) {
        let Some(sent) = self.renewals.answered(attempt) else {
            return;
        };
        let ttl = match answer {
            Renewal::Confirmed(ttl) => ttl,
            Renewal::Gone(loss) => return self.gone(now, loss, out),
        };
        self.backoff.reset();
        let confirmed = Timing::deadline(sent, ttl);
        match &mut self.stage {
            Stage::Verifying(Some(win)) if attempt >= win.first_renewal => {
                win.deadline = win.deadline.max(Some(confirmed));
            }
            Stage::Leading { deadline } if confirmed > *deadline => {
                *deadline = confirmed;
                self.withheld = false;
                self.failed = false;
                out.push(Action::Extend(confirmed));
            }
            _ => {}
        }
    }

    fn gone(&mut self, now: Duration, loss: Loss, out: &mut Vec<Action>) {
        match self.stage {
            Stage::Waiting | Stage::Verifying(_) => self.requeue(now, loss, out),
            Stage::Leading { .. } => self.lose(now, loss, out),
            _ => {}
        }
    }

    /// Joins again at the back of the queue: never a win with a lost place.
    fn requeue(&mut self, now: Duration, loss: Loss, out: &mut Vec<Action>) {
        out.push(Action::Requeue(loss));
        self.stage = Stage::Granting;
        self.renewals.stop();
        self.joined_at = None;
        self.is_placed = false;
        self.retry_at = Some(now + self.backoff.next_after_first());
    }

    fn failed(&mut self, now: Duration, call: Call, error: Option<Error>, out: &mut Vec<Action>) {
        let asked = match self.stage {
            Stage::Granting => Call::Join,
            Stage::Verifying(None) => Call::Verify,
            Stage::Waiting | Stage::Leading { .. } => Call::Wait,
            Stage::Resigning { .. } | Stage::Leaving { .. } => Call::Leave,
            _ => return,
        };
        if call != asked {
            return;
        }
        if call == Call::Leave {
            self.not_left(now, error.is_some(), out);
        } else {
            let pause = match error {
                // Not sooner than the next renewal asks.
                Some(_) => self.timing.renew_timeout,
                None => self.backoff.next(),
            };
            self.retry_at = Some(now + pause);
            self.refused(now, error, out);
        }
    }

    /// Ends a campaign that no retry can help. A leader goes on: it has its
    /// lease until the deadline, whatever the store says meanwhile.
    fn refused(&mut self, now: Duration, error: Option<Error>, out: &mut Vec<Action>) {
        let campaigning = matches!(
            self.stage,
            Stage::Granting | Stage::Waiting | Stage::Verifying(_)
        );
        if let Some(error) = error.filter(|_| campaigning) {
            out.push(Action::Fail(error));
            self.withdraw(now, out);
        }
    }

    fn expire(&mut self, now: Duration, out: &mut Vec<Action>) {
        match self.stage {
            Stage::Leading { deadline } if now >= deadline => {
                // Where one that was sent has failed, the store is why.
                let loss = if self.withheld && !self.failed {
                    Loss::Stalled
                } else {
                    Loss::Expired
                };
                self.lose(now, loss, out);
            }
            _ => {}
        }
    }

    /// Hands out the leadership once the win is confirmed, the takeover delay
    /// is over and enough of the lease is left.
    fn announce(&mut self, now: Duration, out: &mut Vec<Action>) {
        let Stage::Verifying(Some(Win {
            hold_until: None,
            deadline: Some(deadline),
            ..
        })) = self.stage
        else {
            return;
        };
        if now + self.timing.least_left() <= deadline {
            self.stage = Stage::Leading { deadline };
            self.retry_at = Some(now);
            out.push(Action::Announce(deadline));
        }
    }

    /// A wait has a limit too: a notice that got lost costs one TTL, not the
    /// election.
    fn wait(&self, known: Standing) -> Action {
        Action::Wait {
            known,
            limit: self.timing.ttl,
        }
    }

    /// Does what time asks for.
    fn due(&mut self, now: Duration, out: &mut Vec<Action>) {
        let limit = self.timing.renew_timeout;
        if let Stage::Verifying(Some(win)) = self.stage
            && win.hold_until.is_some_and(|until| now >= until)
        {
            self.confirm(now, None, out);
        }
        self.leave_on(now, out);
        if self.renewals.next_due().is_some_and(|due| due <= now) {
            let limit = match self.stage {
                Stage::Leading { deadline } => limit.min(deadline - now),
                _ => limit,
            };
            let attempt = self.renewals.send(now);
            out.push(Action::Renew { attempt, limit });
        }
        if self.retry_at.is_none_or(|at| at > now) {
            return;
        }
        self.retry_at = None;
        match self.stage {
            Stage::Granting => {
                self.joined_at.get_or_insert(now);
                out.push(Action::Join { limit: 2 * limit });
            }
            Stage::Verifying(None) => out.push(Action::Verify { limit }),
            Stage::Waiting => out.push(self.wait(Standing::Queued)),
            Stage::Leading { .. } => out.push(self.wait(Standing::First)),
            Stage::Resigning { until } => out.push(Action::Leave {
                limit: limit.min(until - now),
            }),
            Stage::Leaving { .. } => out.push(Action::Leave { limit }),
            Stage::Idle | Stage::Verifying(Some(_)) | Stage::Over => {}
        }
    }
}

#[cfg(test)]
mod simulation;
#[cfg(test)]
mod tests;
