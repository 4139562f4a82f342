//! The collection of a round's answers.

use std::time::Duration;

use bidi_session::{Round, RoundError, WorkerId};

use super::inject::changed;
use super::lead::{Assigned, Reign, Turn};
use crate::controls::{Half, is_off};
use crate::status::Phase;
use crate::wire::{Reply, reply};

/// From when on a round is one that takes long.
const LATE: Duration = Duration::from_millis(250);

/// How often the status tells anew who keeps a round.
const SHOW_EVERY: Duration = Duration::from_millis(500);

/// Says what becomes of an answer that is not the one a round asks for.
pub(super) fn unexpected(worker: &WorkerId, reply: Reply) -> Turn {
    match reply.kind {
        Some(reply::Kind::InputFailed(why)) => Turn::Failed(why),
        Some(reply::Kind::Refused(why)) => Turn::Recover(format!("{worker} refuses: {why}")),
        _ => Turn::Recover(format!("{worker} gives another answer")),
    }
}

impl Reign<'_> {
    /// Returns which round takes long, and who has not answered it; empty where none does.
    pub(super) fn late_round(&self, phase: Phase) -> String {
        let waits = self.injected_at.elapsed();
        if phase != Phase::Collecting || waits < LATE {
            return String::new();
        }
        // Who has answered reports progress since this barrier.
        let is_late = |assigned: &&Assigned| assigned.progress.since != Some(self.last);
        let late = self
            .assigned
            .iter()
            .filter(|(_, assigned)| is_late(assigned));
        let late: Vec<&str> = late.map(|(worker, _)| worker.as_ref()).collect();
        let (epoch, waits, late) = (self.last, waits.as_secs_f64(), late.join(", "));
        format!("{epoch} waits {waits:.1} s for {late}")
    }

    /// Waits for the answer of every worker of the round; a failure names who and why.
    ///
    /// Events are taken meanwhile: a worker's messages that nobody takes would
    /// keep its answer behind them.
    pub(super) async fn collect(
        &mut self,
        round: Round<Reply>,
    ) -> Result<Vec<(WorkerId, Reply)>, Turn> {
        let answers = round.collect(self.settings().round_deadline);
        tokio::pin!(answers);
        loop {
            tokio::select! {
                biased;
                answers = &mut answers => {
                    let failed = |error: RoundError| match is_off(Half::AllAnswers) {
                        true => Ok(Vec::new()),
                        false => Err(Turn::Recover(error.to_string())),
                    };
                    return answers.or_else(failed);
                }
                () = self.stop.cancelled() => return Err(Turn::Stopped),
                // Who is gone from it fails the round at once.
                () = changed(&mut self.roster) => self.sync_pool(),
                // The round itself says who failed, with all reasons; an event alone would name one.
                event = self.events.recv() => match self.take_event(event) {
                    Ok(()) | Err(Turn::Recover(_)) => {}
                    Err(turn) => return Err(turn),
                },
                () = tokio::time::sleep(SHOW_EVERY) => self.show(Phase::Collecting),
            }
        }
    }
}
