//! One run: faults by plan while the loop counts, then the judgment.

use std::fmt;
use std::io;
use std::path::Path;
use std::time::Duration;

use etcd_client::Client;
use tokio_util::sync::CancellationToken;

use super::acts::{Act, late_acts};
use super::arena::{Arena, Setup};
use super::fault::{Kind, Limits};
use super::feed::feed;
use super::judge::{Addition, Evidence};
use super::plan::Plan;
use super::timeline::Timeline;
use super::witness::Witness;
use crate::cluster::Verdict;
use crate::etcd::{Errand, EtcdLedger, History};
use crate::requests::RequestKind;
use crate::store::CommitError;

/// How long the loop may take to begin.
const BEGIN: Duration = Duration::from_secs(60);

/// How long it may take to end once it is told to.
const END: Duration = Duration::from_secs(90);

/// Beyond its bound a commit is waited for so long, to know by how much it was late.
const BEYOND: Duration = Duration::from_secs(20);

/// Inputs that are added in a run, at the most, and the time between two, at the least.
const MOST_INPUTS: u32 = 60;
const INPUT_EVERY: Duration = Duration::from_secs(2);

/// What is asked of a run.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Orders {
    /// Says all that is random.
    pub seed: u64,
    /// How long faults happen.
    pub length: Duration,
    /// Which faults.
    pub kinds: Vec<Kind>,
}

/// What was found.
#[derive(Debug)]
#[non_exhaustive]
pub struct Outcome {
    /// What was done.
    pub timeline: Timeline,
    /// What should never have happened, in words.
    pub violations: Vec<String>,
    /// Planned faults that did not happen, in words.
    pub missing: Vec<String>,
    /// The loop's own end: the chain and the totals, where they can be read.
    pub verdict: Option<Verdict>,
    /// How often a leader tried to commit, as far as leaders write that down.
    pub acts: usize,
    /// What leaders did after they must have stopped, in words; a violation where they have
    /// their guard.
    pub late: Vec<String>,
    /// What the bounds were made of.
    pub limits: Limits,
}

type Error = Box<dyn std::error::Error + Send + Sync>;

/// Runs a loop under faults and judges it; `say` is told each fault when it is over.
///
/// # Errors
///
/// With what is missing on this machine, or what keeps the loop from beginning.
///
/// # Cancel safety
///
/// Dropped, all processes end.
pub async fn run(
    setup: &Setup,
    orders: &Orders,
    mut say: impl FnMut(&str),
) -> Result<Outcome, Error> {
    let mut arena = Arena::start(setup).await?;
    let deltas = arena.output.deltas();
    let witness = Witness::new(arena.link.clone(), arena.keys.clone(), deltas);
    let inputs = setup.folder.join("inputs");
    std::fs::create_dir_all(&inputs)?;
    let work = async {
        let done = endure(
            &mut arena,
            orders,
            setup.limits,
            &witness,
            &inputs,
            &mut say,
        );
        let (timeline, additions) = Box::pin(done).await?;
        finish(&mut arena).await?;
        Ok::<_, Error>((timeline, additions))
    };
    let (timeline, additions) = tokio::select! {
        done = work => done?,
        () = witness.watch() => return Err("the witness is gone".into()),
    };
    let length = witness.now();
    // Nobody writes from here on.
    arena.stop().await;
    witness.look_at_files()?;
    let reached = Verdict::reach(arena.endpoint(), &arena.keys, &arena.output, 3, true);
    let (verdict, broken) = judged(Box::pin(reached).await)?;
    let mut client = Client::connect([arena.endpoint()], None).await?;
    let history = Box::pin(History::read(&mut client, &arena.keys)).await?;
    let files = witness.files();
    let evidence = Evidence::new(
        &history,
        &files,
        &additions,
        &timeline,
        setup.limits,
        length,
    );
    let mut violations = evidence.violations();
    violations.extend(broken);
    let acts = Act::read(arena.output.folder());
    let deadlines = witness.deadlines(&history.ends, setup.limits.ttl);
    let late = late_acts(&acts, &deadlines);
    if setup.is_guarded {
        violations.extend_from_slice(&late);
    }
    Ok(Outcome {
        missing: timeline.missing(),
        timeline,
        violations,
        verdict,
        acts: acts.len(),
        late,
        limits: setup.limits,
    })
}

/// Takes what was found at the end, and what is wrong with it: a chain or files that cannot
/// be read to their end are what a judge is for.
///
/// # Errors
///
/// Where etcd could not be read, which says nothing about the chain in it.
fn judged(reached: Result<Verdict, Error>) -> Result<(Option<Verdict>, Option<String>), Error> {
    let is_unknown = |error: &CommitError| matches!(error, CommitError::Unknown(_));
    let verdict = match reached {
        Ok(verdict) => verdict,
        Err(error) if error.downcast_ref().is_some_and(is_unknown) => return Err(error),
        Err(error) => return Ok((None, Some(error.to_string()))),
    };
    let wrong = match &verdict.totals {
        None => Some(format!("the chain did not end within {END:?}")),
        Some(totals) => totals
            .difference
            .as_ref()
            .map(|_| "the totals are not those of a plain count".to_owned()),
    };
    Ok((Some(verdict), wrong))
}

/// Feeds the loop and lets faults happen, until the time is over.
async fn endure(
    arena: &mut Arena,
    orders: &Orders,
    limits: Limits,
    witness: &Witness,
    inputs: &Path,
    say: &mut impl FnMut(&str),
) -> Result<(Timeline, Vec<Addition>), Error> {
    let stop = CancellationToken::new();
    let (link, keys) = (arena.link.clone(), arena.keys.clone());
    let every = INPUT_EVERY.max(orders.length / MOST_INPUTS);
    let feeding = feed((&link, &keys), inputs, orders.seed, every, &stop);
    let faults = async {
        let done = faults(arena, orders, limits, witness, say).await;
        stop.cancel();
        let timeline = done?;
        // What the feeder waits for comes only while somebody keeps the processes alive.
        Ok::<_, Error>((timeline, arena))
    };
    let mut feeding = std::pin::pin!(feeding);
    let mut faults = std::pin::pin!(faults);
    let (timeline, arena) = tokio::select! {
        done = &mut faults => done?,
        fed = &mut feeding => {
            return Err(format!("the input ended before the faults: {fed:?}").into());
        }
    };
    let additions = loop {
        tokio::select! {
            fed = &mut feeding => break fed?,
            tended = arena.tend_for(Duration::from_millis(100)) => tended?,
        }
    };
    Ok((timeline, additions))
}

async fn faults(
    arena: &mut Arena,
    orders: &Orders,
    limits: Limits,
    witness: &Witness,
    say: &mut impl FnMut(&str),
) -> Result<Timeline, Error> {
    if next_commit(arena, witness, 0, BEGIN).await?.is_none() {
        let why = arena.failed().unwrap_or_else(|| "see the logs".to_owned());
        return Err(format!("nothing was committed within {BEGIN:?}: {why}").into());
    }
    let mut timeline = Timeline::default();
    let end = witness.now() + orders.length;
    for planned in Plan::new(orders.seed, &orders.kinds, limits) {
        if witness.now() + planned.gap + planned.hold >= end {
            break;
        }
        arena.tend_for(planned.gap).await?;
        let mut record = arena.inject(&planned, witness).await?;
        // Read from etcd: what landed before that is not what is waited for.
        let revision = witness.revision().await;
        let most = planned.kind.bound(&limits) + BEYOND;
        record.resumed = next_commit(arena, witness, revision, most).await?;
        say(&record.to_string());
        timeline.push(record);
    }
    Ok(timeline)
}

/// Waits until a commit of a higher revision is seen; returns when.
async fn next_commit(
    arena: &mut Arena,
    witness: &Witness,
    revision: i64,
    most: Duration,
) -> io::Result<Option<Duration>> {
    let ask = |_, _| async { witness.commit_after(revision) };
    arena.tend_until(most, ask).await
}

/// Lets the chain end, or gives up.
async fn finish(arena: &mut Arena) -> Result<(), Error> {
    let (link, keys) = (arena.link.clone(), arena.keys.clone());
    let errand = Errand::new(link, keys, RequestKind::Finish);
    let mut asking = Box::pin(errand.run(END));
    loop {
        tokio::select! {
            asked = &mut asking => {
                // A loop that does not serve it has not ended: that is for the judge to say.
                if let Err(error) = asked {
                    tracing::warn!(%error, "the chain does not end");
                    return Ok(());
                }
                break;
            }
            tended = arena.tend_for(Duration::from_millis(100)) => tended?,
        }
    }
    let ask = |link, keys| async move {
        let (head, _) = EtcdLedger::head(&link, &keys).await.ok()?;
        head.last.then_some(())
    };
    arena.tend_until(END, ask).await?;
    Ok(())
}

// ===== impl Orders =====

impl Orders {
    /// Every kind of fault, for so long.
    #[must_use]
    pub fn new(seed: u64, length: Duration) -> Self {
        Self {
            seed,
            length,
            kinds: Kind::ALL.to_vec(),
        }
    }
}

impl fmt::Display for Outcome {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.timeline.table(&self.limits))?;
        writeln!(
            f,
            "faults      {}, {} of them did not happen",
            self.timeline.records().len(),
            self.missing.len()
        )?;
        for missing in &self.missing {
            writeln!(f, "MISSING     {missing}")?;
        }
        if let Some(verdict) = &self.verdict {
            write!(f, "{verdict}")?;
        }
        if self.acts > 0 {
            writeln!(f, "acts        {} attempts of commits", self.acts)?;
        }
        for late in &self.late {
            writeln!(f, "ACTED LATE  {late}")?;
        }
        for violation in &self.violations {
            writeln!(f, "VIOLATED    {violation}")?;
        }
        let is_held = self.violations.is_empty();
        let what = if is_held { "held" } else { "violated" };
        writeln!(f, "verdict     {what}")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn outcome(reached: Result<Verdict, Error>) -> Outcome {
        let (verdict, broken) = judged(reached).unwrap();
        Outcome {
            timeline: Timeline::default(),
            violations: broken.into_iter().collect(),
            missing: Vec::new(),
            verdict,
            acts: 3,
            late: vec!["the leader 7".to_owned()],
            limits: Limits::for_ttl(Duration::from_secs(3)),
        }
    }

    #[test]
    fn a_chain_that_cannot_be_read_is_violated_and_an_etcd_that_cannot_says_nothing() {
        let broken = CommitError::Broken("the chain is broken at epoch 4.2".to_owned());
        let text = outcome(Err(broken.into())).to_string();
        assert!(
            text.contains("VIOLATED    the chain is broken at epoch 4.2"),
            "{text}"
        );
        assert!(text.ends_with("verdict     violated\n"), "{text}");
        let missing = outcome(Err("the delta 4-2-w1 is missing".into()));
        assert_eq!(missing.violations, ["the delta 4-2-w1 is missing"]);
        let unknown = CommitError::Unknown(io::Error::other("no answer"));
        assert!(judged(Err(unknown.into())).is_err());
    }

    #[test]
    fn a_chain_that_has_not_ended_is_violated() {
        let verdict = Verdict {
            history: History {
                commits: Vec::new(),
                violations: Vec::new(),
                ends: std::collections::BTreeMap::new(),
            },
            head: crate::wire::Manifest::default(),
            totals: None,
        };
        let text = outcome(Ok(verdict)).to_string();
        assert!(text.contains("VIOLATED    the chain did not end"), "{text}");
        assert!(text.contains("ACTED LATE  the leader 7"), "{text}");
    }
}
