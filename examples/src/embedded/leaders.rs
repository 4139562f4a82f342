//! Starts the candidates and waits until the chain has ended.

use std::sync::Arc;
use std::time::Duration;

use fencing::{Guard, Policy, StartError, Watchdog, WatchdogConfig};
use leader_election::{ElectionConfig, Leadership, MemoryElection};
use tokio::sync::watch;
use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;

use super::faults::Faults;
use super::ghost::Ghost;
use super::setup::Setup;
use super::workers::Workers;
use crate::cli::Args;
use crate::journal::Journal;
use crate::meta::{Candidate, Ended};
use crate::requests::NoRequests;
use crate::status::{Phase, Status};

/// Length of a lease: how long a killed leader is waited for.
const TTL: Duration = Duration::from_secs(2);

/// How long a leader that was told to stop may take for its last step.
const STOP_WITHIN: Duration = Duration::from_secs(2);

/// The candidates' names.
const NAMES: [&str; 2] = ["meta-1", "meta-2"];

/// How a run ended.
#[derive(Debug)]
#[non_exhaustive]
pub enum Outcome {
    /// The last epoch is committed.
    Finished {
        /// Requested kills that did not happen.
        missing: Vec<&'static str>,
        /// The killed leader's late commit was refused, where there was one.
        ghost_refused: bool,
    },
    /// It was told to stop.
    Stopped,
    /// It cannot go on: the input has changed, or a part could not be started.
    Failed(String),
}

/// Runs the loop until the last epoch is committed, or `stop` says so.
///
/// # Cancel safety
///
/// Dropping the future ends every part; epochs that were committed stay.
pub async fn run(
    setup: &Setup,
    args: &Args,
    status: &watch::Sender<Status>,
    journal: &Journal,
    stop: &CancellationToken,
) -> Outcome {
    let workers = match Workers::start(args.workers, &setup.store, &setup.plan) {
        Ok(workers) => workers,
        Err(error) => return Outcome::Failed(format!("a worker cannot start: {error}")),
    };
    let faults = Arc::new(Faults::new(
        args.kill_leader_at,
        args.kill_worker_at,
        setup.plan.total_bytes(),
        workers.clone(),
        journal.clone(),
    ));
    let election = match Election::start(setup, &workers, &faults, (status, journal), stop) {
        Ok(election) => election,
        Err(error) => return Outcome::Failed(error.to_string()),
    };
    let outcome = tokio::select! {
        outcome = election.end(&faults) => outcome,
        () = faults.tend() => Outcome::Stopped,
        () = patience_ends(stop) => Outcome::Stopped,
    };
    workers.stop();
    outcome
}

/// Ends some time after the run was told to stop, whatever hangs.
async fn patience_ends(stop: &CancellationToken) {
    stop.cancelled().await;
    tokio::time::sleep(STOP_WITHIN).await;
}

/// The candidates of one run, and what is left of killed ones.
struct Election<'a> {
    setup: &'a Setup,
    status: &'a watch::Sender<Status>,
    journal: &'a Journal,
    store: MemoryElection,
    candidates: JoinSet<Ended>,
    ghosts: JoinSet<bool>,
}

impl<'a> Election<'a> {
    /// Starts a candidate for each name.
    fn start(
        setup: &'a Setup,
        workers: &Workers,
        faults: &Arc<Faults>,
        (status, journal): (&'a watch::Sender<Status>, &'a Journal),
        stop: &CancellationToken,
    ) -> Result<Self, StartError> {
        let config = WatchdogConfig::for_ttl(TTL).with_policy(Policy::CancelOnly);
        let watchdogs = NAMES.map(|_| Watchdog::start(config.clone()));
        let reserve = config.reserve();
        // No term that the store has seen may come again.
        let first_token = setup.store.highest_token() + 1;
        let mut election = Self {
            setup,
            status,
            journal,
            store: MemoryElection::new(
                ElectionConfig::for_ttl(TTL).with_reserve(reserve),
                first_token,
            ),
            candidates: JoinSet::new(),
            ghosts: JoinSet::new(),
        };
        for (name, watchdog) in NAMES.into_iter().zip(watchdogs) {
            let candidate = Candidate {
                name: name.to_owned(),
                election: Arc::new(election.store.clone()),
                watchdog: watchdog?,
                ledger: Arc::new(setup.store.clone()),
                input: Arc::clone(&setup.plan).into(),
                roster: watch::channel(workers.roster()).1,
                requests: Arc::new(NoRequests),
                settings: setup.settings.clone(),
                status: status.clone(),
                journal: journal.clone(),
                hooks: faults.clone(),
            };
            let stop = stop.clone();
            election
                .candidates
                .spawn(async move { candidate.run(&stop).await });
        }
        Ok(election)
    }

    /// Waits until a candidate has finished the chain, or none can.
    async fn end(mut self, faults: &Faults) -> Outcome {
        loop {
            let ended = match self.candidates.join_next().await {
                Some(Ok(ended)) => ended,
                Some(Err(error)) => return Outcome::Failed(format!("a candidate died: {error}")),
                None => return Outcome::Failed("no candidate is left".to_owned()),
            };
            match ended {
                Ended::Finished => break,
                // The leader may be in the middle of a commit: let it end.
                Ended::Stopped if self.candidates.is_empty() => return Outcome::Stopped,
                Ended::Stopped => {}
                Ended::Failed(why) => return Outcome::Failed(why),
                Ended::Election(error) => return Outcome::Failed(error.to_string()),
                Ended::Killed(leadership, guard) => self.bury(leadership, guard),
            }
        }
        Outcome::Finished {
            missing: faults.missing(),
            ghost_refused: self
                .ghosts
                .join_all()
                .await
                .into_iter()
                .all(|refused| refused),
        }
    }

    fn bury(&mut self, leadership: Leadership, guard: Guard) {
        let token = leadership.token();
        // Nobody hears it any more: its lease runs out, as after a real kill.
        self.store.cut(token);
        let note = format!("the leader (token {token}) was killed");
        self.journal.killed(note);
        self.status
            .send_modify(|status| status.phase = Phase::Electing);
        let ghost = Ghost {
            leadership,
            guard,
            store: self.setup.store.clone(),
            journal: self.journal.clone(),
            head: self.setup.store.head(),
        };
        self.ghosts.spawn(ghost.haunt(self.status.subscribe()));
    }
}
