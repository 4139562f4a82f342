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
const WITHHELD: &str = "leader_election_renewals_withheld_total";
const LEASE_LEFT: &str = "leader_election_lease_left_seconds";

/// The measures of one candidate.
#[derive(Debug)]
pub(crate) struct Measures {
    began: Duration,
    /// The scope within which it leads.
    leads: Option<Arc<str>>,
}

// ===== impl Measures =====

impl Measures {
    pub(crate) fn new(now: Duration) -> Self {
        Self {
            began: now,
            leads: None,
        }
    }

    pub(crate) fn won(&mut self, now: Duration, scope: &Arc<str>) {
        self.leads = Some(Arc::clone(scope));
        facade::count(WINS, scope, None);
        facade::add(IS_LEADER, scope, 1.0);
        facade::time(WAIT, scope, now.saturating_sub(self.began));
    }

    /// Counts the end of the leadership, once.
    pub(crate) fn ended(&mut self, loss: Loss) {
        if let Some(scope) = self.leads.take() {
            facade::count(ENDS, &scope, Some(reason(loss)));
            facade::add(IS_LEADER, &scope, -1.0);
        }
    }
}

pub(crate) fn requeued(scope: &str, loss: Loss) {
    facade::count(REQUEUES, scope, Some(reason(loss)));
}

/// Measures an attempt to renew that took so long.
pub(crate) fn renewed(scope: &str, took: Duration, answer: &Result<Renewal, Error>) {
    match answer {
        Ok(Renewal::Confirmed(_)) => facade::time(RENEWAL, scope, took),
        // The loss is counted elsewhere.
        Ok(Renewal::Gone(_)) => {}
        Err(_) => facade::count(RENEWAL_FAILURES, scope, None),
    }
}

pub(crate) fn withheld(scope: &str) {
    facade::count(WITHHELD, scope, None);
}

/// Measures what was left of the lease when a renewal was confirmed.
pub(crate) fn extended(scope: &str, left: Duration) {
    facade::time(LEASE_LEFT, scope, left);
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

    pub(super) fn count(name: &'static str, scope: &str, reason: Option<&'static str>) {
        let mut labels = labels(scope);
        labels.extend(reason.map(|reason| Label::from_static_parts("reason", reason)));
        counter!(name, labels).increment(1);
    }

    pub(super) fn add(name: &'static str, scope: &str, change: f64) {
        gauge!(name, labels(scope)).increment(change);
    }

    pub(super) fn time(name: &'static str, scope: &str, time: Duration) {
        histogram!(name, labels(scope)).record(time.as_secs_f64());
    }

    fn labels(scope: &str) -> Vec<Label> {
        vec![Label::new("scope", scope.to_owned())]
    }
}

#[cfg(not(feature = "metrics"))]
mod facade {
    use std::time::Duration;

    pub(super) fn count(_: &'static str, _: &str, _: Option<&'static str>) {}

    pub(super) fn add(_: &'static str, _: &str, _: f64) {}

    pub(super) fn time(_: &'static str, _: &str, _: Duration) {}
}
