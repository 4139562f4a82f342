//! When a barrier is due, and its injection.

use bidi_session::{Event, EventKind, Round, WorkerId};
use tokio::sync::watch;

use super::lead::{Reign, Turn};
use crate::roster::Roster;
use crate::status::{Phase, WorkerStatus};
use crate::wire::{Barrier, Command, Progress, Reply, command, reply};

impl Reign<'_> {
    /// Waits until the interval is over or every worker waits for a barrier.
    pub(super) async fn barrier_due(&mut self) -> Result<(), Turn> {
        self.show(Phase::Counting);
        let due = self.injected_at + self.settings().interval;
        while !(self.all_wait() && self.is_worth_it()) {
            tokio::select! {
                biased;
                () = self.stop.cancelled() => return Err(Turn::Stopped),
                () = changed(&mut self.roster) => self.sync_pool(),
                event = self.events.recv() => self.take_event(event)?,
                () = tokio::time::sleep_until(due) => break,
            }
        }
        Ok(())
    }

    /// Sends the barrier of a new epoch to every worker, or to none.
    pub(super) fn inject(&mut self) -> Result<Round<Reply>, Turn> {
        let prev = self.last;
        let open = self.assigned.values().filter(|a| !a.progress.finished);
        let quota_bytes = self.quota(open.count());
        let targets: Vec<WorkerId> = self.assigned.keys().cloned().collect();
        let round = self.send_round(&targets, |_| {
            command::Kind::Barrier(Barrier {
                prev: Some(prev),
                quota_bytes,
            })
        })?;
        self.show(Phase::Collecting);
        Ok(round)
    }

    /// Sends the command of a new epoch to every target, or to none.
    pub(super) fn send_round(
        &mut self,
        targets: &[WorkerId],
        mut kind: impl FnMut(&WorkerId) -> command::Kind,
    ) -> Result<Round<Reply>, Turn> {
        let epoch = self.new_epoch();
        let round = self.pool.inject(epoch.n, targets, |worker| Command {
            epoch: Some(epoch),
            kind: Some(kind(worker)),
        });
        let round = round.map_err(|error| Turn::Recover(error.to_string()))?;
        self.last = epoch;
        self.injected_at = tokio::time::Instant::now();
        Ok(round)
    }

    /// Takes one event of the pool: the state of sessions, progress, strays.
    pub(super) fn take_event(&mut self, event: Option<Event<Reply>>) -> Result<(), Turn> {
        let Some(event) = event else {
            return Err(Turn::Lost("the pool is closed".to_owned()));
        };
        let worker = event.worker;
        match event.kind {
            EventKind::Message(reply) => match reply.kind {
                Some(reply::Kind::Progress(progress)) if reply.epoch.is_none() => {
                    self.take_progress(&worker, progress);
                }
                _ => self.count_stray(&reply),
            },
            EventKind::Connected { .. } if !self.assigned.contains_key(&worker) => {
                self.joined.push(worker);
            }
            EventKind::Disconnected { reason, .. } => {
                self.joined.retain(|joined| *joined != worker);
                let held = self.assigned.get(&worker);
                if held.is_some_and(|held| held.generation == event.generation) {
                    return Err(Turn::Recover(format!("{worker} was lost: {reason}")));
                }
            }
            EventKind::HigherTerm { term } => {
                tracing::warn!(%worker, term, "a worker reports a higher term");
            }
            _ => {}
        }
        Ok(())
    }

    /// Takes what lies ready, without judging it: a recovery asks the pool itself.
    pub(super) fn drain_events(&mut self) {
        while let Some(event) = self.events.try_recv() {
            if let EventKind::Message(reply) = event.kind
                && !matches!(reply.kind, Some(reply::Kind::Progress(_)))
            {
                self.count_stray(&reply);
            }
        }
    }

    /// Returns the generation of a worker's session, or `None` where it has none.
    pub(super) fn session(&self, worker: &WorkerId) -> Option<u64> {
        self.pool.state(worker)?.session()
    }

    /// Returns each worker as the pool sees it.
    pub(super) fn worker_states(&self) -> Vec<WorkerStatus> {
        let each = self.inserted.iter().map(|worker| {
            let state = self.pool.state(worker);
            let retry = state.as_ref().and_then(|state| state.retry_in);
            let next = retry.map(|wait| format!(", next in {:.1} s", wait.as_secs_f64()));
            let text = state.as_ref().map(ToString::to_string);
            WorkerStatus {
                worker: worker.to_string(),
                is_up: state.is_some_and(|state| state.session().is_some()),
                shards: self.assigned.get(worker).map_or(0, |a| a.shards.len()),
                state: text.unwrap_or_default() + &next.unwrap_or_default(),
            }
        });
        each.collect()
    }

    /// Brings the pool to the workers that exist.
    pub(super) fn sync_pool(&mut self) {
        // An error says that it will never change again: then it is taken once more.
        if let Ok(false) = self.roster.has_changed() {
            return;
        }
        let roster = self.roster.borrow_and_update();
        let gone = self.inserted.iter().filter(|w| !roster.contains_key(*w));
        for worker in gone {
            tracing::info!(%worker, "is no longer registered");
            self.pool.remove(worker);
        }
        for (worker, place) in &*roster {
            let (worker, endpoint) = (worker.clone(), place.endpoint.clone());
            match place.incarnation {
                Some(incarnation) => self.pool.insert_incarnation(worker, endpoint, incarnation),
                None => self.pool.insert(worker, endpoint),
            }
        }
        self.inserted = roster.keys().cloned().collect();
    }

    fn take_progress(&mut self, worker: &WorkerId, progress: Progress) {
        // A report that crossed the last barrier says nothing about what came after it.
        if progress.since == Some(self.last)
            && let Some(assigned) = self.assigned.get_mut(worker)
        {
            assigned.progress = progress;
            let read = self.read_since_commit();
            self.meta.status.send_modify(|status| {
                status.read_bytes = status.committed_bytes + read;
            });
        }
    }

    /// Says whether a barrier before its time would commit something, or end the chain.
    fn is_worth_it(&self) -> bool {
        let is_whole = self.head.closed || !self.input.may_grow();
        is_whole || self.read_since_commit() > 0
    }

    fn all_wait(&self) -> bool {
        let mut assigned = self.assigned.values();
        assigned.all(|a| a.progress.waiting && a.progress.since == Some(self.last))
    }
}

/// Waits until the roster changes; for ever where it never will.
pub(super) async fn changed(roster: &mut watch::Receiver<Roster>) {
    if roster.changed().await.is_err() {
        std::future::pending::<()>().await;
    }
    // Left for whoever takes the change.
    roster.mark_changed();
}
