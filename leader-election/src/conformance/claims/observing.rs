//! What observers see.

use std::sync::Arc;

use tokio::sync::watch::Receiver;

use crate::{
    Election, Leader,
    conformance::{
        Cut, Harness,
        stage::{Outcome, Stage, ensure},
    },
};

/// An observer that must never show an older leader after a newer one.
struct Observer<'a> {
    stage: &'a Stage<'a>,
    seen: Receiver<Option<Leader>>,
    newest: u64,
}

impl<'a> Observer<'a> {
    fn new(stage: &'a Stage<'a>, election: &Arc<dyn Election>) -> Self {
        Self {
            stage,
            seen: election.observe(),
            newest: 0,
        }
    }

    /// Waits until it shows what is wanted.
    async fn shows(
        &mut self,
        what: &str,
        wanted: impl Fn(Option<&Leader>) -> bool,
    ) -> Outcome<Option<Leader>> {
        let Self {
            stage,
            seen,
            newest,
        } = self;
        let mut shown = None;
        let looks = async {
            loop {
                shown.clone_from(&*seen.borrow_and_update());
                if let Some(leader) = &shown {
                    ensure!(
                        leader.token >= *newest,
                        "an observer shows token {} after {newest}",
                        leader.token
                    );
                    *newest = leader.token;
                }
                if wanted(shown.as_ref()) {
                    return Ok(());
                }
                seen.changed().await.map_err(|e| e.to_string())?;
            }
        };
        let looked = stage.soon(what, looks).await;
        looked.map_err(|text| format!("{text}, an observer shows {shown:?}"))??;
        Ok(shown)
    }
}

pub(in crate::conformance) async fn an_observer_sees_the_present_leader(
    harness: &dyn Harness,
) -> Outcome {
    let stage = Stage::new(harness);
    let election = stage.node(0, stage.long()).await;
    let leadership = stage.lead(&election, b"present").await?;
    let _waits = stage.queue_up(&election, b"next", 2).await?;
    let late = stage.node(1, stage.long()).await;
    let mut observer = Observer::new(&stage, &late);
    let shown = observer.shows("a late observer sees who leads", |leader| leader.is_some());
    let shown = shown.await?;
    let expected = Leader::new(*b"present", leadership.token(), leadership.scope());
    ensure!(
        shown.as_ref() == Some(&expected),
        "a late observer sees {shown:?}, {expected:?} leads"
    );
    Ok(())
}

pub(in crate::conformance) async fn an_observer_sees_changes_and_nobody(
    harness: &dyn Harness,
) -> Outcome {
    let stage = Stage::new(harness);
    let election = stage.node(0, stage.long()).await;
    let other = stage.node(1, stage.long()).await;
    let mut observer = Observer::new(&stage, &other);
    for round in 0_u8..6 {
        let leadership = stage.lead(&election, &[round]).await?;
        let token = leadership.token();
        for value in [[round, 1], [round, 2]] {
            leadership
                .proclaim(&value)
                .await
                .map_err(|e| e.to_string())?;
            let is_shown = |leader: Option<&Leader>| {
                leader.is_some_and(|leader| leader.value == value && leader.token == token)
            };
            observer
                .shows("a proclaimed value is shown", is_shown)
                .await?;
        }
        // A candidate behind the leader is shown only in its turn.
        let next = stage.queue_up(&election, b"next", 2).await?;
        stage.released(&leadership).await?;
        let next = next.wins("the next one").await?;
        let follows = |leader: Option<&Leader>| leader.is_some_and(|leader| leader.token > token);
        let shown = observer.shows("the next one is shown", follows).await?;
        let shown = shown.map_or(0, |leader| leader.token);
        ensure!(
            shown == next.token(),
            "an observer shows token {shown}, {} leads",
            next.token()
        );
        stage.released(&next).await?;
        let nobody = |leader: Option<&Leader>| leader.is_none();
        observer
            .shows("nobody leads, and that is shown", nobody)
            .await?;
    }
    // What follows a newer one can come late.
    tokio::time::sleep(stage.ttl / 2).await;
    let shown = observer.seen.borrow().clone();
    ensure!(shown.is_none(), "nobody leads, an observer shows {shown:?}");
    Ok(())
}

pub(in crate::conformance) async fn an_observer_survives_a_cut(harness: &dyn Harness) -> Outcome {
    let stage = Stage::new(harness);
    let election = stage.node(0, stage.long()).await;
    let other = stage.node(1, stage.short()).await;
    let mut observer = Observer::new(&stage, &other);
    for cut in [Cut::Requests, Cut::Answers] {
        let before = stage.lead(&election, b"before").await?;
        let token = before.token();
        let is_before =
            |leader: Option<&Leader>| leader.is_some_and(|leader| leader.token == token);
        observer
            .shows("the leader before the cut is shown", is_before)
            .await?;
        harness.cut(1, cut).await;
        stage.released(&before).await?;
        let after = stage.lead(&election, b"after").await?;
        tokio::time::sleep(stage.ttl).await;
        harness.heal(1).await;
        let token = after.token();
        let is_after = |leader: Option<&Leader>| leader.is_some_and(|leader| leader.token == token);
        observer
            .shows("the leader after the cut is shown", is_after)
            .await?;
        stage.released(&after).await?;
    }
    Ok(())
}
