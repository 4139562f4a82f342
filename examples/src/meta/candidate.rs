//! One candidate: waits for leadership, leads under a guard, and waits again after a loss.

use std::sync::Arc;
use std::time::Duration;

use fencing::{Guard, Watchdog};
use leader_election::{Election, Leadership};
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;

use super::lead::{Reign, Turn};
use crate::controls::{HEARS_LATE, Half, is_off};
use crate::input::Parts;
use crate::journal::Journal;
use crate::requests::Requests;
use crate::roster::Roster;
use crate::status::{Phase, Status};
use crate::store::Ledger;

/// How the loop behaves.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Settings {
    /// Longest time between two barriers.
    pub interval: Duration,
    /// Bytes that all workers together read, at the most, between two barriers.
    pub epoch_bytes: u64,
    /// How long a round may take before it counts as failed.
    pub round_deadline: Duration,
    /// How long a recovery waits for workers that are expected back; then their shards
    /// move to others.
    pub patience: Duration,
}

impl Default for Settings {
    /// 200 ms, 1 MiB, 10 s and 1 s.
    fn default() -> Self {
        Self {
            interval: Duration::from_millis(200),
            epoch_bytes: 1024 * 1024,
            round_deadline: Duration::from_secs(10),
            patience: Duration::from_secs(1),
        }
    }
}

impl Settings {
    /// Sets the longest time between two barriers.
    #[must_use]
    pub fn with_interval(mut self, interval: Duration) -> Self {
        self.interval = interval;
        self
    }

    /// Sets what all workers together read, at the most, between two barriers.
    #[must_use]
    pub fn with_epoch_bytes(mut self, epoch_bytes: u64) -> Self {
        self.epoch_bytes = epoch_bytes;
        self
    }

    /// Sets how long a round may take.
    #[must_use]
    pub fn with_round_deadline(mut self, round_deadline: Duration) -> Self {
        self.round_deadline = round_deadline;
        self
    }

    /// Sets how long a recovery waits for workers that are expected back.
    #[must_use]
    pub fn with_patience(mut self, patience: Duration) -> Self {
        self.patience = patience;
        self
    }
}

/// What may interfere with a leader; the loop asks at fixed points.
#[tonic::async_trait]
pub trait Hooks: Send + Sync + 'static {
    /// Called after each commit, before the next barrier; the loop waits for it.
    async fn committed(&self, bytes: u64);

    /// Ends when the present leader is to die where it stands.
    async fn killed(&self);
}

/// No interference.
#[derive(Clone, Copy, Debug)]
pub struct NoHooks;

#[tonic::async_trait]
impl Hooks for NoHooks {
    async fn committed(&self, _bytes: u64) {}

    async fn killed(&self) {
        std::future::pending().await
    }
}

/// How a candidate's loop ended.
#[derive(Debug)]
#[non_exhaustive]
pub enum Ended {
    /// The last epoch is committed, by this candidate or another.
    Finished,
    /// It was told to stop; leadership was given back.
    Stopped,
    /// The input is not as planned, or the output folder is gone: no leader can go on.
    Failed(String),
    /// The election refuses for good.
    Election(leader_election::Error),
    /// It was killed while it led; what it held is left as it was.
    Killed(Leadership, Guard),
}

/// One meta process, or its like in an embedded run.
pub struct Candidate {
    /// Who campaigns, as observers see it.
    pub name: String,
    /// Who elects.
    pub election: Arc<dyn Election>,
    /// What cancels the loop before the lease can end.
    pub watchdog: Watchdog,
    /// Where epochs are committed.
    pub ledger: Arc<dyn Ledger>,
    /// What is counted.
    pub input: Parts,
    /// Who counts, and where it listens.
    pub roster: watch::Receiver<Roster>,
    /// What users ask for.
    pub requests: Arc<dyn Requests>,
    /// How the loop behaves.
    pub settings: Settings,
    /// Where the loop reports what it does.
    pub status: watch::Sender<Status>,
    /// Where it keeps what the end report needs.
    pub journal: Journal,
    /// What interferes.
    pub hooks: Arc<dyn Hooks>,
}

impl std::fmt::Debug for Candidate {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Candidate")
            .field("name", &self.name)
            .finish_non_exhaustive()
    }
}

impl Candidate {
    /// Campaigns and leads until the chain has ended, or `stop` says so.
    pub async fn run(&self, stop: &CancellationToken) -> Ended {
        loop {
            let leadership = tokio::select! {
                biased;
                () = stop.cancelled() => return Ended::Stopped,
                won = self.election.campaign(self.name.as_bytes()) => match won {
                    Ok(leadership) => leadership,
                    Err(error) => return Ended::Election(error),
                },
            };
            let token = leadership.token();
            let guard = match self.watchdog.guard(token, leadership.deadline()) {
                Ok(guard) => guard,
                Err(busy) => {
                    // Work of the last reign still runs: let another candidate lead.
                    tracing::warn!(candidate = %self.name, token, %busy, "cannot lead yet");
                    leadership.resign().await;
                    tokio::time::sleep(self.settings.patience).await;
                    continue;
                }
            };
            let followed = guard.clone();
            leadership.follow(move |deadline| followed.extend(deadline));
            let reign = Box::pin(self.reign(&guard, &leadership, stop));
            let turn = async {
                if is_off(Half::Guard) {
                    return Ok(unguarded(reign, &leadership).await);
                }
                guard.run(reign).await
            };
            let turn = tokio::select! {
                biased;
                () = self.hooks.killed() => return Ended::Killed(leadership, guard),
                turn = turn => turn,
            };
            let turn = match turn {
                // The work was dropped in time: there is nothing left to end.
                Err(lost) => {
                    self.journal.lost(token, &lost.to_string());
                    Turn::Lost(lost.to_string())
                }
                // Another leads while the guard is live: whatever runs here must end.
                Ok(Turn::Lost(why)) => {
                    self.journal.lost(token, &why);
                    guard.trip();
                    Turn::Lost(why)
                }
                Ok(turn) => turn,
            };
            // Nothing of this reign runs from here on; only then may the next one begin.
            guard.finish().await;
            leadership.resign().await;
            self.status
                .send_modify(|status| status.phase = Phase::Electing);
            match turn {
                Turn::Lost(_) | Turn::Recover(_) => {}
                Turn::Finished => return Ended::Finished,
                Turn::Stopped => return Ended::Stopped,
                Turn::Failed(why) => return Ended::Failed(why),
            }
        }
    }

    /// Notes what went wrong and is tried again, and shows it until the next commit.
    pub(super) fn hindered(&self, why: &str) {
        self.journal.hindered(why);
        self.status
            .send_modify(|status| why.clone_into(&mut status.trouble));
    }

    async fn reign(
        &self,
        guard: &Guard,
        leadership: &Leadership,
        stop: &CancellationToken,
    ) -> Turn {
        match Reign::open(self, guard, leadership, stop).await {
            Ok(mut reign) => {
                let turn = reign.lead().await;
                reign.close().await;
                turn
            }
            Err(turn) => turn,
        }
    }
}

/// Leads without a guard, until a while after the leadership was lost.
async fn unguarded(reign: impl Future<Output = Turn>, leadership: &Leadership) -> Turn {
    let told = async {
        let why = leadership.lost().await;
        tokio::time::sleep(HEARS_LATE).await;
        Turn::Lost(why.to_string())
    };
    tokio::select! {
        turn = reign => turn,
        turn = told => turn,
    }
}
