//! The task of one candidate: tells the core what happened and does what it
//! answers.

mod calls;

use std::{collections::HashMap, sync::Arc, time::Duration};

use tokio::{
    sync::oneshot,
    task::{Id, JoinError, JoinSet},
};

use self::calls::Answer;
pub(super) use self::calls::Asked;
use super::{Parts, troubles::Troubles};
use crate::{
    CandidateId, ElectionConfig, Error, Leadership, Loss, Place, Renewal, Resigned, Store,
    candidacy::{Action, Candidacy, Input},
    clock::Clock,
    leadership::Tenure,
    measures::{self, Measures},
};

/// The clock is read again at least this many times in a TTL: timers stop in
/// suspend, the clock does not.
const READS_PER_TTL: u32 = 20;

pub(super) struct Candidate {
    store: Arc<dyn Store>,
    config: Arc<ElectionConfig>,
    clock: Clock,
    value: Arc<[u8]>,
    core: Candidacy,
    id: CandidateId,
    place: Option<Place>,
    calls: JoinSet<Answer>,
    running: HashMap<Id, Asked>,
    /// Who waits for the campaign, until it has an outcome.
    caller: Option<oneshot::Sender<Result<Leadership, Error>>>,
    tenure: Option<Arc<Tenure>>,
    /// The election's.
    name: Arc<str>,
    measures: Measures,
    troubles: Troubles,
}

// ===== impl Candidate =====

impl Candidate {
    pub(super) fn new(
        parts: Parts,
        value: Arc<[u8]>,
        caller: oneshot::Sender<Result<Leadership, Error>>,
    ) -> Self {
        let Parts {
            store,
            config,
            clock,
            name,
        } = parts;
        Self {
            core: Candidacy::new(config.timing(), fastrand::u64(..)),
            measures: Measures::new(clock.now(), Arc::clone(&name)),
            troubles: Troubles::new(Arc::clone(&name), config.ttl),
            store,
            config,
            clock,
            value,
            id: CandidateId::random(),
            place: None,
            calls: JoinSet::new(),
            running: HashMap::new(),
            caller: Some(caller),
            tenure: None,
            name,
        }
    }

    pub(super) async fn run(mut self) {
        self.step(Input::Start);
        while !self.core.is_over() {
            let input = self.next().await;
            self.step(input);
        }
    }

    async fn next(&mut self) -> Input {
        let now = self.clock.now();
        let reread = self.config.ttl / READS_PER_TTL;
        let pause = match self.core.next_wake() {
            Some(wake) => wake.saturating_sub(now).min(reread),
            None => reread,
        };
        let tenure = self.tenure.as_deref().filter(|_| self.core.is_leading());
        tokio::select! {
            // The end first: no renewal is sent after it.
            biased;
            loss = ended(tenure) => {
                self.leads_no_longer(loss);
                Input::Ended
            }
            () = abandoned(self.caller.as_mut()) => {
                self.caller = None;
                Input::Withdrawn
            }
            Some(done) = self.calls.join_next_with_id() => self.answered(done),
            () = tokio::time::sleep(pause) => Input::Tick,
        }
    }

    fn answered(&mut self, done: Result<(Id, Answer), JoinError>) -> Input {
        let (asked, answer) = match done {
            Ok((id, answer)) => (self.running.remove(&id), Some(answer)),
            // The runtime shuts down, and this task with it.
            Err(broken) if broken.is_cancelled() => return Input::Tick,
            Err(broken) => (self.running.remove(&broken.id()), None),
        };
        let Some(asked) = asked else {
            // A call that was dropped meanwhile.
            return Input::Tick;
        };
        let input = match answer {
            Some(Answer::Joined(Ok(grant))) => {
                self.place = Some(grant.place);
                Input::Joined { ttl: grant.ttl }
            }
            Some(Answer::Verified(Ok(standing))) => Input::Verified(standing),
            Some(Answer::Waited(Ok(standing))) => Input::Waited(standing),
            Some(Answer::Renewed(attempt, Ok(answer))) => Input::Renewed { attempt, answer },
            Some(Answer::Left(Ok(()))) => Input::Left,
            answer => return self.failed(asked, answer.and_then(Answer::error)),
        };
        let confirms = !matches!(
            &input,
            Input::Renewed {
                answer: Renewal::Gone(_),
                ..
            }
        );
        self.troubles.served(asked, confirms, self.token());
        input
    }

    fn failed(&mut self, asked: Asked, error: Option<Error>) -> Input {
        if let Asked::Once(call) = asked {
            measures::failed(&self.name, call.name());
        }
        self.troubles.failed(asked, error.as_ref(), self.token());
        let error = error.filter(Error::is_final);
        match asked {
            Asked::Once(call) => Input::Failed { call, error },
            Asked::Renew(attempt) => Input::RenewalFailed { attempt, error },
        }
    }

    fn step(&mut self, input: Input) {
        let mut next = Some(input);
        while let Some(input) = next.take() {
            for action in self.core.step(self.clock.now(), input) {
                next = self.perform(action).or(next);
            }
        }
    }

    /// Does what the core asks for; at most one action of a step has an answer
    /// at once.
    fn perform(&mut self, action: Action) -> Option<Input> {
        match action {
            Action::Join { limit } => self.join(limit),
            Action::Verify { limit } => self.verify(limit),
            Action::Wait { known, limit } => self.wait(known, limit),
            Action::Renew { attempt, limit } => return self.renew(attempt, limit),
            Action::Leave { limit } => self.leave(limit),
            Action::Requeue(loss) => {
                let (token, election) = (self.token(), &*self.name);
                tracing::info!(token, election, %loss, "place lost while waiting: joins again");
                measures::requeued(&self.name, self.scope(), loss);
                self.stop_calls();
                self.id = CandidateId::random();
                self.place = None;
            }
            Action::StopCalls => self.stop_calls(),
            Action::Fail(error) => {
                if let Some(caller) = self.caller.take() {
                    // An error means that nobody waits: the same end.
                    let _ = caller.send(Err(error));
                }
            }
            Action::Announce(deadline) => self.announce(deadline),
            Action::Extend(deadline) => self.extend(deadline),
            Action::End(loss) => self.end(loss),
            Action::Tell(outcome) => self.tell(outcome),
            Action::Done(outcome) => {
                self.stop_calls();
                tracing::debug!(token = self.token(), %outcome, "candidate is done");
                self.tell(outcome);
            }
        }
        None
    }

    fn announce(&mut self, deadline: Duration) {
        let (Some(place), Some(caller)) = (self.place.clone(), self.caller.take()) else {
            return;
        };
        let (token, election) = (place.token, &*self.name);
        tracing::info!(token, election, scope = %place.scope, "leads");
        self.troubles.leads();
        self.measures.won(self.clock.now(), &place.scope);
        let tenure = Arc::new(Tenure::new(self.clock.clone(), deadline));
        self.tenure = Some(Arc::clone(&tenure));
        let store = Arc::clone(&self.store);
        let leadership = Leadership::new(place, tenure, store, self.config.renew_timeout);
        // Where nobody waits any more it comes back and is dropped: it resigns.
        drop(caller.send(Ok(leadership)));
    }

    fn extend(&mut self, deadline: Duration) {
        if let Some(tenure) = &self.tenure {
            measures::extended(&self.name, self.scope(), tenure.remaining());
            if !tenure.extend(deadline) {
                // A check found it over before this confirmation.
                tenure.end(Loss::Expired);
            }
        }
    }

    fn end(&mut self, loss: Loss) {
        if let Some(tenure) = &self.tenure {
            tenure.end(loss);
            let loss = tenure.loss().unwrap_or(loss);
            self.leads_no_longer(loss);
        }
    }

    fn leads_no_longer(&mut self, loss: Loss) {
        let (token, election) = (self.token(), &*self.name);
        tracing::info!(token, election, %loss, "leads no longer");
        self.measures.ended(loss);
        self.troubles.leaves();
    }

    fn tell(&self, outcome: Resigned) {
        if let Some(tenure) = &self.tenure {
            tenure.released(outcome);
        }
    }

    fn stop_calls(&mut self) {
        self.calls = JoinSet::new();
        self.running.clear();
    }

    fn token(&self) -> Option<u64> {
        self.place.as_ref().map(|place| place.token)
    }

    fn scope(&self) -> &str {
        self.place.as_ref().map_or("", |place| &place.scope)
    }
}

impl Drop for Candidate {
    fn drop(&mut self) {
        // Reached before the end only if the runtime is shut down.
        if let Some(tenure) = self.tenure.take() {
            tenure.end(Loss::Stopped);
            tenure.released(Resigned::Unconfirmed);
            if self.core.is_leading() {
                self.leads_no_longer(tenure.loss().unwrap_or(Loss::Stopped));
            }
        }
    }
}

/// Resolves when the leadership is ended on this side.
async fn ended(tenure: Option<&Tenure>) -> Loss {
    let Some(tenure) = tenure else {
        return std::future::pending().await;
    };
    let mut loss = tenure.watch_loss();
    let seen = loss.wait_for(Option::is_some).await;
    // It lives as long as the borrow: the channel cannot close.
    seen.ok().and_then(|loss| *loss).unwrap_or(Loss::Stopped)
}

/// Resolves when nobody waits for the campaign any more.
async fn abandoned(caller: Option<&mut oneshot::Sender<Result<Leadership, Error>>>) {
    match caller {
        Some(caller) => caller.closed().await,
        None => std::future::pending().await,
    }
}
