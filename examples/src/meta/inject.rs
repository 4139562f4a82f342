//! When a barrier is due, and its injection.

use bidi_session::{Event, EventKind, Round, WorkerId};

use super::lead::{Reign, Turn};
use crate::status::Phase;
use crate::wire::{Barrier, Command, Progress, Reply, command, reply};

impl Reign<'_> {
    /// Waits until the interval is over or every worker waits for a barrier.
    pub(super) async fn barrier_due(&mut self) -> Result<(), Turn> {
        self.show(Phase::Counting);
        let due = self.injected_at + self.settings().interval;
        while !self.all_wait() {
            tokio::select! {
                biased;
                () = self.stop.cancelled() => return Err(Turn::Stopped),
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

    /// Returns how many workers have a session.
    pub(super) fn workers_up(&self) -> usize {
        let workers = self.meta.workers.iter();
        workers.filter(|(w, _)| self.session(w).is_some()).count()
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

    fn all_wait(&self) -> bool {
        let mut assigned = self.assigned.values();
        assigned.all(|a| a.progress.waiting && a.progress.since == Some(self.last))
    }
}
