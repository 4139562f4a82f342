//! What is logged of a candidate's calls that fail.

use std::{sync::Arc, time::Duration};

use super::{
    candidate::Asked,
    outage::{Outage, Summary},
};
use crate::{Error, candidacy::Call};

/// The faults of one candidate, each told when it begins and when it is over.
#[derive(Debug)]
pub(super) struct Troubles {
    election: Arc<str>,
    leads: Option<Leader>,
    /// All calls of one who waits; those of a leader that are no renewals.
    calls: Outage,
    panics: Outage,
    patience: Duration,
}

/// The faults that are told at once: the deadline comes nearer.
#[derive(Debug)]
struct Leader {
    renewals: Outage,
    progress: Outage,
}

// ===== impl Troubles =====

impl Troubles {
    /// Faults that cost a candidate no more than time are told after `patience`.
    pub(super) fn new(election: Arc<str>, patience: Duration) -> Self {
        Self {
            election,
            leads: None,
            calls: Outage::new(patience),
            panics: Outage::new(Duration::ZERO),
            patience,
        }
    }

    pub(super) fn leads(&mut self) {
        self.leads = Some(Leader {
            renewals: Outage::new(Duration::ZERO),
            progress: Outage::new(Duration::ZERO),
        });
        self.calls = Outage::new(self.patience);
    }

    /// It leads no longer: what fails from now on concerns nobody here.
    pub(super) fn leaves(&mut self) {
        self.leads = None;
        self.calls = Outage::new(Duration::MAX);
    }

    pub(super) fn failed(&mut self, asked: Asked, error: Option<&Error>, token: Option<u64>) {
        let election = &*self.election;
        let Some(error) = error else {
            if self.panics.failed().is_some() {
                tracing::error!(token, election, "call to the store panicked");
            }
            return;
        };
        let error = error as &dyn std::error::Error;
        tracing::debug!(error, token, election, "call to the store failed");
        if let (Asked::Renew(_), Some(leader)) = (asked, &mut self.leads) {
            if let Some(Summary { lasted, failures }) = leader.renewals.failed() {
                let text = "renewals fail: it leads until the deadline, unless one is confirmed";
                tracing::warn!(error, token, election, ?lasted, failures, "{text}");
            }
        } else if let Some(Summary { lasted, failures }) = self.calls.failed() {
            let waits_for = waits_for(asked, self.leads.is_some());
            let text = "the store does not answer a candidate, which goes on to ask";
            tracing::warn!(
                error,
                token,
                election,
                waits_for,
                ?lasted,
                failures,
                "{text}"
            );
        }
    }

    /// Notes that a call was served; `confirms` where it tells of nothing that is gone.
    pub(super) fn served(&mut self, asked: Asked, confirms: bool, token: Option<u64>) {
        let election = &*self.election;
        self.panics.over();
        if let (Asked::Renew(_), Some(leader)) = (asked, &mut self.leads) {
            if let Some(Summary { lasted, .. }) = leader.progress.over() {
                tracing::info!(token, election, ?lasted, "progress again: renewals go on");
            }
            let over = leader.renewals.over().filter(|_| confirms);
            if let Some(Summary { lasted, failures }) = over {
                tracing::info!(
                    token,
                    election,
                    ?lasted,
                    failures,
                    "renewals are confirmed again"
                );
            }
        } else if let Some(Summary { lasted, failures }) = self.calls.over() {
            tracing::info!(
                token,
                election,
                ?lasted,
                failures,
                "the store answers again"
            );
        }
    }

    /// Notes that a leader without progress was not renewed.
    pub(super) fn withheld(&mut self, token: Option<u64>) {
        let election = &*self.election;
        let told = self
            .leads
            .as_mut()
            .and_then(|leader| leader.progress.failed());
        if let Some(Summary { lasted, failures }) = told {
            tracing::warn!(
                token,
                election,
                ?lasted,
                failures,
                "no progress: renewals withheld"
            );
        }
    }
}

fn waits_for(asked: Asked, leads: bool) -> &'static str {
    match asked {
        Asked::Once(Call::Join) => "a place in the queue",
        Asked::Once(Call::Leave) => "the end of its place",
        _ if leads => "news of its place",
        Asked::Once(Call::Verify | Call::Wait) | Asked::Renew(_) => "its turn",
    }
}
