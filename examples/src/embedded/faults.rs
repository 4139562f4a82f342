//! Kills on request: at a time, or once a share of the input is committed.

use std::sync::atomic::{AtomicBool, Ordering::SeqCst};
use std::time::Duration;

use tokio::sync::Notify;
use tokio::time::Instant;

use super::workers::Workers;
use crate::cli::When;
use crate::journal::Journal;
use crate::meta::Hooks;

/// The worker that is killed: it always holds shards.
const VICTIM: usize = 0;

/// How long a killed worker stays away.
const AWAY: Duration = Duration::from_millis(300);

/// The requested kills; each happens once.
#[derive(Debug)]
pub(super) struct Faults {
    started: Instant,
    total_bytes: u64,
    leader: Kill,
    worker: Kill,
    kill_leader: Notify,
    worker_killed: Notify,
    workers: Workers,
    journal: Journal,
}

/// One requested kill.
#[derive(Debug)]
struct Kill {
    when: Option<When>,
    happened: AtomicBool,
}

impl Kill {
    fn new(when: Option<When>) -> Self {
        Self {
            when,
            happened: AtomicBool::new(false),
        }
    }

    /// Says once, when the time has come, that it must happen now.
    fn take(&self, elapsed: Duration, committed: u64, total: u64) -> bool {
        let is_due = |when: When| when.is_due(elapsed, committed, total);
        self.when.is_some_and(is_due) && !self.happened.swap(true, SeqCst)
    }

    fn is_missing(&self) -> bool {
        self.when.is_some() && !self.happened.load(SeqCst)
    }

    /// Waits for a kill by time; for ever where there is none.
    async fn time_comes(&self, started: Instant) {
        match self.when {
            Some(When::After(wait)) => tokio::time::sleep_until(started + wait).await,
            _ => std::future::pending().await,
        }
    }
}

impl Faults {
    pub(super) fn new(
        leader: Option<When>,
        worker: Option<When>,
        total_bytes: u64,
        workers: Workers,
        journal: Journal,
    ) -> Self {
        Self {
            started: Instant::now(),
            total_bytes,
            leader: Kill::new(leader),
            worker: Kill::new(worker),
            kill_leader: Notify::new(),
            worker_killed: Notify::new(),
            workers,
            journal,
        }
    }

    /// Returns the requested kills that did not happen.
    pub(super) fn missing(&self) -> Vec<&'static str> {
        let named = [(&self.leader, "leader"), (&self.worker, "worker")];
        let missing = named.into_iter().filter(|(kill, _)| kill.is_missing());
        missing.map(|(_, name)| name).collect()
    }

    /// Kills the worker at its time, if it has one, and starts a killed one again.
    ///
    /// Runs for ever; somebody must poll it beside the loop.
    pub(super) async fn tend(&self) {
        tokio::select! {
            () = self.worker_killed.notified() => {}
            () = self.worker.time_comes(self.started) => {
                if self.worker.take(self.started.elapsed(), 0, self.total_bytes) {
                    self.kill_worker();
                }
            }
        }
        tokio::time::sleep(AWAY).await;
        while let Err(error) = self.workers.restart(VICTIM) {
            let why = format!("the killed worker cannot start again yet: {error}");
            self.journal.hindered(&why);
            tokio::time::sleep(AWAY).await;
        }
        std::future::pending().await
    }

    fn kill_worker(&self) {
        if let Some(worker) = self.workers.kill(VICTIM) {
            self.journal.killed(format!("worker {worker} was killed"));
        }
        self.worker_killed.notify_one();
    }
}

#[tonic::async_trait]
impl Hooks for Faults {
    async fn committed(&self, bytes: u64) {
        let elapsed = self.started.elapsed();
        if self.worker.take(elapsed, bytes, self.total_bytes) {
            self.kill_worker();
        }
        // After the last commit there is nobody left to take over: that is no kill.
        if let Some(When::Share(_)) = self.leader.when
            && bytes < self.total_bytes
            && self.leader.take(elapsed, bytes, self.total_bytes)
        {
            self.kill_leader.notify_one();
            // The leader dies here: `killed` ends and drops it.
            std::future::pending::<()>().await;
        }
    }

    async fn killed(&self) {
        tokio::select! {
            () = self.kill_leader.notified() => {}
            () = self.leader.time_comes(self.started) => {
                if !self.leader.take(self.started.elapsed(), 0, self.total_bytes) {
                    std::future::pending::<()>().await;
                }
            }
        }
    }
}
