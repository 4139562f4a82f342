//! How a candidate or a leader leaves.

use std::time::Duration;

use tokio::runtime::Handle;

use crate::{
    Resigned,
    clock::tokio_now,
    conformance::{
        Cut, Harness,
        stage::{Outcome, Stage, ensure},
    },
};

/// How often a campaign is dropped after so many turns of the runtime, then after so
/// many steps of time.
const TURNS: usize = 32;
const STEPS: u32 = 16;
const STEP: Duration = Duration::from_micros(500);

pub(in crate::conformance) async fn a_dropped_campaign_leaves_nobody(
    harness: &dyn Harness,
) -> Outcome {
    let stage = Stage::new(harness);
    let election = stage.node(0, stage.long()).await;
    for turns in 0..TURNS {
        let campaign = stage.campaign(&election, b"n");
        for _ in 0..turns {
            tokio::task::yield_now().await;
        }
        drop(campaign);
        stage
            .queued(0)
            .await
            .map_err(|e| format!("dropped after {turns} turns: {e}"))?;
    }
    for step in 0..STEPS {
        let after = step * STEP;
        let campaign = stage.campaign(&election, b"n");
        tokio::time::sleep(after).await;
        drop(campaign);
        stage
            .queued(0)
            .await
            .map_err(|e| format!("dropped after {after:?}: {e}"))?;
    }
    let leads = stage.lead(&election, b"leader").await?;
    let waits = stage.queue_up(&election, b"n", 2).await?;
    drop(waits);
    let left = stage
        .queued(1)
        .await
        .map_err(|e| format!("dropped while it waited: {e}"))?;
    ensure!(
        left == [leads.token()] && leads.is_valid(),
        "withdrawing the second candidate left the queue {left:?}, token {} led",
        leads.token()
    );
    Ok(())
}

pub(in crate::conformance) async fn a_dropped_leadership_is_resigned(
    harness: &dyn Harness,
) -> Outcome {
    let stage = Stage::new(harness);
    let first = stage.node(0, stage.long()).await;
    let second = stage.node(1, stage.long()).await;
    let old = stage.lead(&first, b"old").await?;
    let next = stage.queue_up(&second, b"next", 2).await?;
    let token = old.token();
    drop(old);
    let new = next
        .wins("the successor of a leadership that was dropped")
        .await?;
    ensure!(
        new.token() > token,
        "token {} followed {token}",
        new.token()
    );
    Ok(())
}

pub(in crate::conformance) async fn resigning_again_removes_no_successor(
    harness: &dyn Harness,
) -> Outcome {
    let stage = Stage::new(harness);
    // The second time, the answers to the release are lost: it is repeated.
    for cut in [None, Some(Cut::Answers)] {
        let first = stage.node(0, stage.medium()).await;
        let second = stage.node(1, stage.medium()).await;
        let old = stage.lead(&first, b"same").await?;
        let next = stage.queue_up(&second, b"same", 2).await?;
        if let Some(cut) = cut {
            harness.cut(0, cut).await;
            let outcome = old.resign().await;
            ensure!(
                outcome == Resigned::Unconfirmed,
                "resigning without an answer of the store: {outcome}"
            );
        } else {
            stage.released(&old).await?;
        }
        let new = next.wins("the successor of a leader that resigned").await?;
        harness.heal(0).await;
        for _ in 0..3 {
            let outcome = old.resign().await;
            ensure!(
                cut.is_some() || outcome == Resigned::Released,
                "resigning again: {outcome}"
            );
        }
        drop(old);
        tokio::time::sleep(stage.ttl).await;
        let queue = harness.queue().await;
        ensure!(
            queue == [new.token()] && new.is_valid(),
            "after the old leader resigned again the queue is {queue:?}, token {} leads",
            new.token()
        );
        stage.released(&new).await?;
        stage.queued(0).await?;
    }
    Ok(())
}

pub(in crate::conformance) async fn an_end_comes_before_its_release(
    harness: &dyn Harness,
) -> Outcome {
    let stage = Stage::new(harness);
    let config = stage.long().with_renew_timeout(stage.ttl / 3);
    let limit = 2 * config.renew_timeout;
    let first = stage.node(0, config.clone()).await;
    let second = stage.node(1, config).await;
    let old = stage.lead(&first, b"old").await?;
    let next = stage.queue_up(&second, b"next", 2).await?;
    harness.cut(0, Cut::Requests).await;
    let began = tokio_now();
    {
        let mut resign = std::pin::pin!(old.resign());
        let polled = tokio::time::timeout(Duration::ZERO, resign.as_mut()).await;
        ensure!(polled.is_err(), "resign was answered through a cut");
        ensure!(
            !old.is_valid(),
            "the leadership is valid after resign was asked for"
        );
        ensure!(
            !next.is_over(),
            "the next one led before the release reached the store"
        );
        let outcome = stage.soon("resign answers", resign).await?;
        ensure!(
            outcome == Resigned::Unconfirmed,
            "resigning through a cut: {outcome}"
        );
    }
    let took = began.elapsed();
    ensure!(
        took <= limit + stage.ttl,
        "resign answered after {took:?}, {limit:?} is its bound"
    );
    harness.heal(0).await;
    next.wins("the next one, once the release reached the store")
        .await?;
    Ok(())
}

pub(in crate::conformance) async fn cycles_leave_nothing_behind(harness: &dyn Harness) -> Outcome {
    let stage = Stage::new(harness);
    let rounds = if harness.is_simulated() { 500 } else { 100 };
    let election = stage.node(0, stage.long()).await;
    // Connections are made with the first.
    cycle(&stage, &election, 0).await?;
    stage.queued(0).await?;
    let tasks = || Handle::current().metrics().num_alive_tasks();
    let before = settled(&stage, tasks, usize::MAX).await;
    for round in 0..rounds {
        cycle(&stage, &election, round).await?;
    }
    stage.queued(0).await?;
    let after = settled(&stage, tasks, before).await;
    ensure!(
        after <= before,
        "{rounds} campaigns left {after} tasks, there were {before}"
    );
    Ok(())
}

async fn cycle(
    stage: &Stage<'_>,
    election: &std::sync::Arc<dyn crate::Election>,
    round: u32,
) -> Outcome {
    let leadership = stage.lead(election, b"n").await?;
    if round.is_multiple_of(2) {
        stage.released(&leadership).await?;
    }
    Ok(())
}

/// Waits until a number has come down to a bound, and returns it.
async fn settled(stage: &Stage<'_>, number: impl Fn() -> usize, bound: usize) -> usize {
    let began = tokio_now();
    // What ended just now may still be on its way out.
    tokio::time::sleep(stage.ttl / 10).await;
    while number() > bound && began.elapsed() < stage.patience {
        tokio::time::sleep(stage.ttl / 10).await;
    }
    number()
}
