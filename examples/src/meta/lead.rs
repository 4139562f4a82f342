//! One reign: from the admission of a token to the end of its leadership.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use bidi_session::tonic::Tonic;
use bidi_session::{Events, Pool, PoolConfig, WorkerId};
use fencing::Guard;
use leader_election::Leadership;
use tokio::sync::watch;
use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;

use super::additions::Additions;
use super::candidate::{Candidate, Settings};
use crate::input::{InputPlan, Parts};
use crate::roster::Roster;
use crate::status::Phase;
use crate::store::CommitError;
use crate::wire::compute_client::ComputeClient;
use crate::wire::{Command, Epoch, Manifest, Position, Progress, Reply};

/// Pause before a reign that could not begin is begun again.
const AGAIN: Duration = Duration::from_millis(200);

/// Why the rounds stop.
#[derive(Debug)]
pub(super) enum Turn {
    /// Go back to the last committed epoch first; the cause, for the report.
    Recover(String),
    /// The last epoch is committed.
    Finished,
    /// The candidate was told to stop.
    Stopped,
    /// The input is not as planned, or the output folder is gone.
    Failed(String),
    /// Another leader has been admitted, or the guard refuses.
    Lost(String),
}

/// A worker that holds shards in the present assignment.
#[derive(Debug)]
pub(super) struct Assigned {
    /// The session that was reset; a newer one knows nothing of this assignment.
    pub(super) generation: u64,
    /// Its last report since the last barrier.
    pub(super) progress: Progress,
    pub(super) shards: BTreeSet<u32>,
}

/// A leader's state while it leads.
pub(super) struct Reign<'a> {
    pub(super) meta: &'a Candidate,
    pub(super) guard: &'a Guard,
    pub(super) stop: &'a CancellationToken,
    pub(super) token: u64,
    /// The input as far as it is committed, and where it comes from.
    pub(super) plan: Arc<InputPlan>,
    pub(super) input: Parts,
    pub(super) additions: Additions,
    /// What keeps a request from being served; empty where nothing does.
    pub(super) waits: String,
    /// Who exists, and who of them is in the pool.
    pub(super) roster: watch::Receiver<Roster>,
    pub(super) inserted: BTreeSet<WorkerId>,
    pub(super) pool: Pool<Tonic<Command, Reply>>,
    pub(super) events: Events<Tonic<Command, Reply>>,
    /// The last committed manifest.
    pub(super) head: Manifest,
    /// The last barrier or reset: the next barrier names it as its predecessor.
    pub(super) last: Epoch,
    pub(super) next_n: u64,
    pub(super) assigned: BTreeMap<WorkerId, Assigned>,
    /// Sessions that came up since the assignment and hold no shard of it.
    pub(super) joined: Vec<WorkerId>,
    pub(super) injected_at: tokio::time::Instant,
    pub(super) recoveries_since_commit: u32,
    /// Files of lost barriers may lie about.
    pub(super) has_leftovers: bool,
    /// What removes such files; it ends with the reign.
    pub(super) cleaning: JoinSet<()>,
}

impl<'a> Reign<'a> {
    /// Admits the token, reads the chain's head and opens the pool.
    pub(super) async fn open(
        meta: &'a Candidate,
        guard: &'a Guard,
        leadership: &Leadership,
        stop: &'a CancellationToken,
    ) -> Result<Self, Turn> {
        let token = leadership.token();
        // Before any work is handed out: from here on no lower term can commit.
        let head = begin(meta, leadership, stop).await?;
        let mut input = meta.input.clone();
        let plan = input.plan(&head.parts);
        let plan = plan.map_err(|error| Turn::Failed(error.to_string()))?;
        let connect = Tonic::new(|channel, request| async move {
            ComputeClient::new(channel).control(request).await
        })
        .with_answers(move |reply: &Reply| answered_round(reply, token));
        let config = PoolConfig::new(token).with_scope(leadership.scope());
        let (pool, events) = Pool::new(connect, config);
        // Who wins once all is done has nothing to lead.
        if !head.closed {
            meta.journal.leads(token, &meta.name);
        }
        let mut roster = meta.roster.clone();
        roster.mark_changed();
        let mut reign = Self {
            meta,
            guard,
            stop,
            token,
            plan,
            input,
            additions: Additions::default(),
            waits: String::new(),
            roster,
            inserted: BTreeSet::new(),
            pool,
            events,
            head,
            last: Epoch::START,
            next_n: 1,
            assigned: BTreeMap::new(),
            joined: Vec::new(),
            injected_at: tokio::time::Instant::now(),
            recoveries_since_commit: 0,
            has_leftovers: false,
            cleaning: JoinSet::new(),
        };
        reign.sync_pool();
        Ok(reign)
    }

    /// Runs rounds, and goes back after each failure, until the reign ends.
    pub(super) async fn lead(&mut self) -> Turn {
        if self.head.last {
            return Turn::Finished;
        }
        // What the last leader or process left uncommitted is lost: that is a recovery too.
        let mut cause =
            (self.head.id() != Epoch::START).then(|| format!("{} leads now", self.meta.name));
        loop {
            self.show(Phase::Recovering);
            let turn = match self.recover(cause).await {
                Ok(()) => self.rounds().await,
                Err(turn) => turn,
            };
            match turn {
                Turn::Recover(why) => {
                    self.meta
                        .status
                        .send_modify(|status| status.trouble.clone_from(&why));
                    cause = Some(why);
                }
                turn => return turn,
            }
        }
    }

    async fn rounds(&mut self) -> Turn {
        loop {
            match self.round().await {
                Ok(()) if self.head.last => return Turn::Finished,
                Ok(()) => {}
                Err(turn) => return turn,
            }
        }
    }

    /// One epoch: inject, collect, commit.
    async fn round(&mut self) -> Result<(), Turn> {
        self.take_requests().await;
        self.barrier_due().await?;
        let round = self.inject()?;
        let answers = self.collect(round).await?;
        self.commit_epoch(answers).await?;
        self.share_out_anew()
    }

    /// Says whether, right after a commit, the shards should be handed out anew.
    fn share_out_anew(&mut self) -> Result<(), Turn> {
        if let Some(added) = self.applied() {
            return Err(Turn::Recover(added));
        }
        if !self.joined.is_empty() && self.open_shards() > self.assigned.len() {
            let names: Vec<&str> = self.joined.iter().map(AsRef::as_ref).collect();
            return Err(Turn::Recover(format!("{} joined", names.join(", "))));
        }
        let held = |shard| self.assigned.values().any(|a| a.shards.contains(&shard));
        let left = self.open_positions().filter(|p| !held(p.shard)).count();
        if left > 0 && self.has_free_slot() {
            return Err(Turn::Recover(format!(
                "there is room for {left} more shards"
            )));
        }
        Ok(())
    }

    /// Returns how many shards are not read to their end.
    pub(super) fn open_shards(&self) -> usize {
        self.open_positions().count()
    }

    fn open_positions(&self) -> impl Iterator<Item = &Position> {
        let positions = self.head.positions.iter();
        positions.filter(|p| self.plan.remaining(p) > 0)
    }

    fn has_free_slot(&self) -> bool {
        let roster = self.roster.borrow();
        roster.iter().any(|(worker, place)| {
            let open = self.assigned.get(worker).map_or(0, |assigned| {
                let open = self.open_positions();
                open.filter(|p| assigned.shards.contains(&p.shard)).count()
            });
            self.session(worker).is_some() && open < place.slots
        })
    }

    /// Returns an epoch that this term has not used.
    pub(super) fn new_epoch(&mut self) -> Epoch {
        let epoch = Epoch::new(self.token, self.next_n);
        self.next_n += 1;
        epoch
    }

    /// Ends the sessions and keeps what the pool counted.
    pub(super) async fn close(mut self) {
        if self.head.last {
            self.drop_requests().await;
            self.clean_up().await;
        }
        self.meta.journal.dropped(self.pool.counters());
        self.pool.close().await;
    }

    pub(super) fn settings(&self) -> &Settings {
        &self.meta.settings
    }

    /// Publishes what the display shows.
    pub(super) fn show(&self, phase: Phase) {
        let states = self.worker_states();
        let read = self.read_since_commit();
        self.meta.status.send_modify(|status| {
            status.phase = phase;
            status.leader.clone_from(&self.meta.name);
            status.token = self.token;
            status.epoch = self.head.id();
            status.read_bytes = status.committed_bytes + read;
            status.total_bytes = self.plan.total_bytes();
            status.workers = states.len();
            status.workers_up = states.iter().filter(|state| state.is_up).count();
            status.states = states;
            status.waits.clone_from(&self.waits);
            status.round = self.late_round(phase);
        });
    }

    /// Returns what the workers have reported to have read.
    pub(super) fn read_since_commit(&self) -> u64 {
        self.assigned.values().map(|a| a.progress.bytes).sum()
    }

    /// Counts an answer that is no answer to a round of this term.
    pub(super) fn count_stray(&self, reply: &Reply) {
        let is_older = reply.epoch.is_some_and(|epoch| epoch.term < self.token);
        self.meta.journal.stray(is_older);
    }
}

/// Admits the token and returns the chain's head; tells what keeps it from that.
async fn begin(
    meta: &Candidate,
    leadership: &Leadership,
    stop: &CancellationToken,
) -> Result<Manifest, Turn> {
    let mut told = String::new();
    loop {
        let error = match meta.ledger.begin(leadership).await {
            Ok(head) => return Ok(head),
            Err(CommitError::Broken(why)) => return Err(Turn::Failed(why)),
            Err(error @ CommitError::Stale { .. }) => return Err(Turn::Lost(error.to_string())),
            Err(error) => error.to_string(),
        };
        meta.status.send_modify(|status| {
            status.phase = Phase::Recovering;
            status.leader.clone_from(&meta.name);
            status.token = leadership.token();
        });
        if error != told {
            meta.hindered(&error);
            told = error;
        }
        tokio::select! {
            () = stop.cancelled() => return Err(Turn::Stopped),
            () = tokio::time::sleep(AGAIN) => {}
        }
    }
}

/// Returns the round that a reply answers: one of this term, or none.
fn answered_round(reply: &Reply, token: u64) -> Option<u64> {
    reply
        .epoch
        .filter(|epoch| epoch.term == token)
        .map(|epoch| epoch.n)
}
