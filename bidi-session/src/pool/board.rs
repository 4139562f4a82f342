//! Where rounds wait for their answers.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::sync::Notify;

use crate::clock::Clock;
use crate::core::rounds::{Answerer, Progress, Roster, Rounds, Stray, Unfit};
use crate::error::RoundError;
use crate::event::DisconnectReason;
use crate::meters::End;
use crate::pool::tally::Tally;
use crate::worker::WorkerId;

/// The rounds of one pool and who waits for them.
pub(crate) struct Board<In> {
    clock: Clock,
    tally: Arc<Tally>,
    state: Mutex<State<In>>,
}

struct State<In> {
    rounds: Rounds<In>,
    // In order, so that those who wait are woken in the same one in each run.
    waiting: BTreeMap<u64, Arc<Notify>>,
}

/// A barrier round in flight; dropping it forgets its answers.
///
/// It does not keep its pool alive.
#[must_use = "a round that is not collected is forgotten"]
pub struct Round<In> {
    id: u64,
    board: Arc<Board<In>>,
    changed: Arc<Notify>,
    began: Duration,
    end: End,
}

// ===== impl Board =====

impl<In> Board<In> {
    pub(crate) fn new(clock: Clock, tally: Arc<Tally>) -> Self {
        Self {
            clock,
            tally,
            state: Mutex::new(State {
                rounds: Rounds::new(),
                waiting: BTreeMap::new(),
            }),
        }
    }

    /// Says whether a round of this id could begin.
    pub(crate) fn check(&self, id: u64) -> Result<(), Unfit> {
        self.lock().rounds.check(id)
    }

    /// Begins a round that asks these workers, each on its present session.
    pub(crate) fn begin(
        self: &Arc<Self>,
        id: u64,
        roster: Arc<Roster>,
    ) -> Result<Round<In>, Unfit> {
        let changed = Arc::new(Notify::new());
        let mut state = self.lock();
        state.rounds.begin(id, roster)?;
        state.waiting.insert(id, changed.clone());
        drop(state);
        Ok(Round {
            id,
            board: self.clone(),
            changed,
            began: self.clock.now(),
            end: End::Dropped,
        })
    }

    /// Hands answers of one session, each with its round, to their rounds.
    pub(crate) fn answer(&self, by: &mut Answerer, answers: impl Iterator<Item = (u64, In)>) {
        let mut strays = Vec::new();
        let mut complete = Vec::new();
        let mut state = self.lock();
        for (id, message) in answers {
            match state.rounds.answer(id, by, message) {
                Ok(true) => complete.extend(state.waiting.get(&id).cloned()),
                Ok(false) => {}
                Err(stray) => strays.push(stray),
            }
        }
        drop(state);
        wake(&complete);
        for (stray, message) in strays {
            self.tally.add(|counters| match stray {
                Stray::OlderGeneration => counters.older_generation += 1,
                Stray::Late => counters.late += 1,
                Stray::Duplicate => counters.duplicate += 1,
                Stray::Unknown => counters.unknown += 1,
                Stray::NotATarget => counters.not_a_target += 1,
            });
            let (worker, generation) = (by.worker(), by.generation());
            tracing::debug!(%worker, generation, ?stray, "stray answer dropped");
            drop(message);
        }
    }

    /// Fails the rounds that wait for an ended session.
    pub(crate) fn fail(&self, worker: &WorkerId, generation: u64, reason: &DisconnectReason) {
        let now = self.clock.now();
        let mut state = self.lock();
        let failed = state.rounds.fail(now, worker, generation, reason);
        let failed = failed.iter().filter_map(|id| state.waiting.get(id));
        let failed: Vec<_> = failed.cloned().collect();
        drop(state);
        wake(&failed);
    }

    /// Ends all rounds that are not complete; returns who waits for them, to be woken
    /// once no lock is held.
    #[must_use]
    pub(crate) fn close(&self) -> Vec<Arc<Notify>> {
        let mut state = self.lock();
        state.rounds.close();
        state.waiting.values().cloned().collect()
    }

    fn lock(&self) -> MutexGuard<'_, State<In>> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl<In> fmt::Debug for Board<In> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Board").finish_non_exhaustive()
    }
}

/// Wakes those who wait for rounds; wakers are foreign code, so no lock may be held.
fn wake(rounds: &[Arc<Notify>]) {
    rounds.iter().for_each(|round| round.notify_one());
}

// ===== impl Round =====

impl<In> Round<In> {
    /// Returns the id that it was injected with.
    #[must_use]
    pub fn id(&self) -> u64 {
        self.id
    }

    /// Waits, at most `wait`, for the answer of every target; answers come in the
    /// order of the targets.
    ///
    /// Answers reach the round whether or not this is polled, as long as
    /// [`Events`](crate::Events) is: messages of a worker that nobody takes keep its
    /// answer behind them.
    ///
    /// # Errors
    ///
    /// [`RoundError::Failed`] as soon as a worker was lost, removed or replaced
    /// before it answered, with all that were within 20 ms; [`RoundError::TimedOut`]
    /// with who is missing; [`RoundError::Closed`] when the pool was closed.
    ///
    /// # Cancel safety
    ///
    /// Dropping the future drops the round: its answers are forgotten, and later
    /// ones count as late.
    pub async fn collect(mut self, wait: Duration) -> Result<Vec<(WorkerId, In)>, RoundError> {
        let result = self.over(wait).await;
        self.end = End::of(&result);
        result
    }

    async fn over(&self, wait: Duration) -> Result<Vec<(WorkerId, In)>, RoundError> {
        let clock = self.board.clock;
        let deadline = clock.now().saturating_add(wait);
        loop {
            let now = clock.now();
            let until = match self.progress(now) {
                Progress::Over(result) => return result,
                _ if now >= deadline => return self.board.lock().rounds.expire(self.id),
                Progress::Settling { until } => until.min(deadline),
                Progress::Waiting => deadline,
            };
            tokio::select! {
                biased;
                () = self.changed.notified() => {}
                () = clock.sleep_until(until) => {}
            }
        }
    }

    fn progress(&self, now: Duration) -> Progress<In> {
        self.board.lock().rounds.progress(self.id, now)
    }
}

impl<In> Drop for Round<In> {
    fn drop(&mut self) {
        let mut state = self.board.lock();
        state.waiting.remove(&self.id);
        let forgotten = state.rounds.end(self.id);
        drop(state);
        let took = self.board.clock.now().saturating_sub(self.began);
        self.board.tally.meters.round_ended(self.end, took);
        // Outside of the lock: dropping a message is user code.
        drop(forgotten);
    }
}

impl<In> fmt::Debug for Round<In> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Round")
            .field("id", &self.id)
            .finish_non_exhaustive()
    }
}
