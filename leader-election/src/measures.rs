//! What is measured, with the feature `metrics`; without it, nothing is.
//!
//! The names are public: the README lists them, and a test compares.

use std::{sync::Arc, time::Duration};

use crate::{Error, Loss, Renewal};

const IS_LEADER: &str = "leader_election_is_leader";
const WINS: &str = "leader_election_wins_total";
const ENDS: &str = "leader_election_ends_total";
const REQUEUES: &str = "leader_election_requeues_total";
const WAIT: &str = "leader_election_wait_seconds";
const RENEWAL: &str = "leader_election_renewal_seconds";
const RENEWAL_FAILURES: &str = "leader_election_renewal_failures_total";
const CALL_FAILURES: &str = "leader_election_call_failures_total";
const WITHHELD: &str = "leader_election_renewals_withheld_total";
const LEASE_LEFT: &str = "leader_election_lease_left_seconds";

/// The measures of one candidate.
#[derive(Debug)]
pub(crate) struct Measures {
    election: Arc<str>,
    began: Duration,
    /// The scope within which it leads.
    leads: Option<Arc<str>>,
}

// ===== impl Measures =====

impl Measures {
    pub(crate) fn new(now: Duration, election: Arc<str>) -> Self {
        // It is there from the first campaign on: an absent measure alarms nobody.
        facade::add(IS_LEADER, &election, 0.0);
        Self {
            election,
            began: now,
            leads: None,
        }
    }

    pub(crate) fn won(&mut self, now: Duration, scope: &Arc<str>) {
        self.leads = Some(Arc::clone(scope));
        let waited = now.saturating_sub(self.began);
        facade::count(WINS, &self.election, &[("scope", scope)]);
        facade::add(IS_LEADER, &self.election, 1.0);
        facade::time(WAIT, &self.election, scope, waited);
    }

    /// Counts the end of the leadership, once.
    pub(crate) fn ended(&mut self, loss: Loss) {
        if let Some(scope) = self.leads.take() {
            let labels = [("scope", &*scope), ("reason", reason(loss))];
            facade::count(ENDS, &self.election, &labels);
            facade::add(IS_LEADER, &self.election, -1.0);
        }
    }
}

pub(crate) fn requeued(election: &str, scope: &str, loss: Loss) {
    let labels = [("scope", scope), ("reason", reason(loss))];
    facade::count(REQUEUES, election, &labels);
}

/// Measures an attempt to renew that took so long.
pub(crate) fn renewed(
    election: &str,
    scope: &str,
    took: Duration,
    answer: &Result<Renewal, Error>,
) {
    match answer {
        Ok(Renewal::Confirmed(_)) => facade::time(RENEWAL, election, scope, took),
        // The loss is counted elsewhere.
        Ok(Renewal::Gone(_)) => {}
        Err(_) => facade::count(RENEWAL_FAILURES, election, &[("scope", scope)]),
    }
}

/// Counts a call that is no renewal and was not served.
pub(crate) fn failed(election: &str, call: &'static str) {
    facade::count(CALL_FAILURES, election, &[("call", call)]);
}

pub(crate) fn withheld(election: &str, scope: &str) {
    facade::count(WITHHELD, election, &[("scope", scope)]);
}

/// Measures what was left of the lease when a renewal was confirmed.
pub(crate) fn extended(election: &str, scope: &str, left: Duration) {
    facade::time(LEASE_LEFT, election, scope, left);
}

fn reason(loss: Loss) -> &'static str {
    match loss {
        Loss::Expired => "expired",
        Loss::Stalled => "stalled",
        Loss::Removed => "removed",
        Loss::Reset => "reset",
        Loss::Resigned => "resigned",
        Loss::FollowerPanicked => "follower_panicked",
        Loss::Stopped => "stopped",
    }
}

#[cfg(feature = "metrics")]
mod facade {
    use std::time::Duration;

    use metrics::{Label, counter, gauge, histogram};

    pub(super) fn count(name: &'static str, election: &str, more: &[(&'static str, &str)]) {
        counter!(name, labels(election, more)).increment(1);
    }

    pub(super) fn add(name: &'static str, election: &str, change: f64) {
        gauge!(name, labels(election, &[])).increment(change);
    }

    pub(super) fn time(name: &'static str, election: &str, scope: &str, time: Duration) {
        let labels = labels(election, &[("scope", scope)]);
        histogram!(name, labels).record(time.as_secs_f64());
    }

    fn labels(election: &str, more: &[(&'static str, &str)]) -> Vec<Label> {
        let mut labels = vec![Label::new("election", election.to_owned())];
        labels.extend(
            more.iter()
                .map(|(name, value)| Label::new(*name, (*value).to_owned())),
        );
        labels
    }
}

#[cfg(not(feature = "metrics"))]
mod facade {
    use std::time::Duration;

    pub(super) fn count(_: &'static str, _: &str, _: &[(&'static str, &str)]) {}

    pub(super) fn add(_: &'static str, _: &str, _: f64) {}

    pub(super) fn time(_: &'static str, _: &str, _: &str, _: Duration) {}
}
