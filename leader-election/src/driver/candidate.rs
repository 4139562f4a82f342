//! The task of one candidate: tells the core what happened and does what it
//! answers.

use std::{
    collections::HashMap,
    panic::{AssertUnwindSafe, catch_unwind},
    sync::Arc,
    time::Duration,
};

use tokio::{
    sync::oneshot,
    task::{Id, JoinError, JoinSet},
};

use crate::{
    CandidateId, ElectionConfig, Error, ErrorKind, Grant, Leadership, Loss, Place, Renewal,
    Resigned, Standing, Store,
    candidacy::{Action, Call, Candidacy, Input},
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
    measures: Measures,
}

/// A call to the store that runs.
#[derive(Clone, Copy)]
enum Asked {
    Once(Call),
    Renew(u64),
}

/// What a call to the store returned.
enum Answer {
    Joined(Result<Grant, Error>),
    Verified(Result<Standing, Error>),
    Waited(Result<Standing, Error>),
    Renewed(u64, Result<Renewal, Error>),
    Left(Result<(), Error>),
}

// ===== impl Candidate =====

impl Candidate {
    pub(super) fn new(
        store: Arc<dyn Store>,
        config: Arc<ElectionConfig>,
        clock: Clock,
        value: Arc<[u8]>,
        caller: oneshot::Sender<Result<Leadership, Error>>,
    ) -> Self {
        Self {
            core: Candidacy::new(config.timing(), fastrand::u64(..)),
            measures: Measures::new(clock.now()),
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
                tracing::info!(token = self.token(), %loss, "leads no longer");
                self.measures.ended(loss);
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
            Err(broken) => (self.running.remove(&broken.id()), None),
        };
        match (asked, answer) {
            (_, Some(Answer::Joined(Ok(grant)))) => {
                self.place = Some(grant.place);
                Input::Joined { ttl: grant.ttl }
            }
            (_, Some(Answer::Verified(Ok(standing)))) => Input::Verified(standing),
            (_, Some(Answer::Waited(Ok(standing)))) => Input::Waited(standing),
            (_, Some(Answer::Renewed(attempt, Ok(answer)))) => Input::Renewed { attempt, answer },
            (_, Some(Answer::Left(Ok(())))) => Input::Left,
            (Some(asked), answer) => self.failed(asked, answer.and_then(Answer::error)),
            // A call that was dropped meanwhile.
            (None, _) => Input::Tick,
        }
    }

    fn failed(&self, asked: Asked, error: Option<Error>) -> Input {
        match &error {
            Some(error) => {
                let error = error as &dyn std::error::Error;
                if self.core.is_leading() {
                    tracing::warn!(error, token = self.token(), "call to the store failed");
                } else {
                    tracing::debug!(error, token = self.token(), "call to the store failed");
                }
            }
            None => tracing::error!(token = self.token(), "call to the store panicked"),
        }
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
                tracing::info!(token = self.token(), %loss, "place lost while waiting: joins again");
                measures::requeued(self.scope(), loss);
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
        tracing::info!(token = place.token, scope = %place.scope, "leads");
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
            measures::extended(self.scope(), tenure.remaining());
            if !tenure.extend(deadline) {
                // A check found it over before this confirmation.
                tenure.end(Loss::Expired);
            }
        }
    }

    fn end(&mut self, loss: Loss) {
        if let Some(tenure) = &self.tenure {
            tenure.end(loss);
            self.measures.ended(tenure.loss().unwrap_or(loss));
            tracing::info!(token = self.token(), %loss, "leads no longer");
        }
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

    // ----- calls to the store -----

    fn join(&mut self, limit: Duration) {
        let (store, id) = (Arc::clone(&self.store), self.id);
        let (value, ttl) = (Arc::clone(&self.value), self.config.ttl);
        self.call(Asked::Once(Call::Join), async move {
            Answer::Joined(within(limit, store.join(id, &value, ttl)).await)
        });
    }

    fn verify(&mut self, limit: Duration) {
        let Some((store, place)) = self.seat() else {
            return;
        };
        self.call(Asked::Once(Call::Verify), async move {
            Answer::Verified(within(limit, store.verify(&place)).await)
        });
    }

    fn wait(&mut self, known: Standing, limit: Duration) {
        let Some((store, place)) = self.seat() else {
            return;
        };
        self.call(Asked::Once(Call::Wait), async move {
            let changed = tokio::time::timeout(limit, store.wait(&place, known));
            // No news is an answer too.
            Answer::Waited(changed.await.unwrap_or(Ok(known)))
        });
    }

    fn renew(&mut self, attempt: u64, limit: Duration) -> Option<Input> {
        if self.core.is_leading() && !self.makes_progress() {
            tracing::warn!(token = self.token(), "no progress: renewal withheld");
            measures::withheld(self.scope());
            return Some(Input::Withheld { attempt });
        }
        let (store, place) = self.seat()?;
        let clock = self.clock.clone();
        self.call(Asked::Renew(attempt), async move {
            let sent = clock.now();
            let answer = within(limit, store.renew(&place)).await;
            measures::renewed(&place.scope, clock.now().saturating_sub(sent), &answer);
            Answer::Renewed(attempt, answer)
        });
        None
    }

    fn leave(&mut self, limit: Duration) {
        let (store, id, token) = (Arc::clone(&self.store), self.id, self.token());
        self.call(Asked::Once(Call::Leave), async move {
            Answer::Left(within(limit, store.leave(id, token)).await)
        });
    }

    fn call(&mut self, asked: Asked, call: impl Future<Output = Answer> + Send + 'static) {
        let id = self.calls.spawn(call).id();
        self.running.insert(id, asked);
    }

    fn seat(&self) -> Option<(Arc<dyn Store>, Place)> {
        Some((Arc::clone(&self.store), self.place.clone()?))
    }

    fn makes_progress(&self) -> bool {
        let Some(renew_while) = &self.config.renew_while else {
            return true;
        };
        catch_unwind(AssertUnwindSafe(|| renew_while())).unwrap_or(false)
    }
}

impl Drop for Candidate {
    fn drop(&mut self) {
        // Reached before the end only if the runtime is shut down.
        self.measures.ended(Loss::Stopped);
        if let Some(tenure) = &self.tenure {
            tenure.end(Loss::Stopped);
            tenure.released(Resigned::Unconfirmed);
        }
    }
}

// ===== impl Answer =====

impl Answer {
    fn error(self) -> Option<Error> {
        match self {
            Self::Joined(answer) => answer.err(),
            Self::Verified(answer) | Self::Waited(answer) => answer.err(),
            Self::Renewed(_, answer) => answer.err(),
            Self::Left(answer) => answer.err(),
        }
    }
}

async fn within<T>(
    limit: Duration,
    call: impl Future<Output = Result<T, Error>>,
) -> Result<T, Error> {
    tokio::time::timeout(limit, call).await.unwrap_or_else(|_| {
        Err(Error::new(
            ErrorKind::Unavailable,
            format!("the store did not answer within {limit:?}"),
        ))
    })
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
