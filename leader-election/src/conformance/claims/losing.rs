//! How a place or a leadership is lost.

use std::{
    sync::{
        Arc, PoisonError,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

use crate::{
    ErrorKind, Loss, Resigned,
    conformance::{
        Cut, Harness,
        stage::{Outcome, Stage, ensure, follow},
    },
};

pub(in crate::conformance) async fn a_place_lost_while_waiting_is_no_win(
    harness: &dyn Harness,
) -> Outcome {
    let stage = Stage::new(harness);
    let first = stage.node(0, stage.long()).await;
    let second = stage.node(1, stage.long()).await;
    for removed in [false, true] {
        let leads = stage.lead(&first, b"0").await?;
        let loses = stage.queue_up(&second, b"1", 2).await?;
        let waits = stage.queue_up(&first, b"2", 3).await?;
        let before = harness.queue().await;
        let [_, lost, third] = before[..] else {
            return Err(format!("three candidates made the queue {before:?}"));
        };
        if removed {
            harness.delete(lost).await;
        } else {
            harness.expire(lost).await;
        }
        stage
            .soon("it joins again", rejoined(harness, lost, 3))
            .await?;
        let after = harness.queue().await;
        ensure!(
            after[..2] == [leads.token(), third] && after[2] > third,
            "token {lost} of the queue {before:?} was lost while it waited, then it was {after:?}"
        );
        stage.released(&leads).await?;
        let next = waits.wins("the candidate behind the lost place").await?;
        ensure!(
            next.token() == third && !loses.is_over(),
            "the lost place won, or a place out of turn: token {} after {after:?}",
            next.token()
        );
        stage.released(&next).await?;
        let last = loses.wins("the candidate whose place was lost").await?;
        ensure!(
            last.token() == after[2] && harness.queue().await == [last.token()],
            "the candidate whose place was lost leads with token {} after {after:?}",
            last.token()
        );
        stage.released(&last).await?;
    }
    Ok(())
}

/// Waits until the queue has its length again without this token.
async fn rejoined(harness: &dyn Harness, without: u64, count: usize) {
    loop {
        let queue = harness.queue().await;
        if queue.len() == count && !queue.contains(&without) {
            return;
        }
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
}

pub(in crate::conformance) async fn a_revoked_lease_ends_the_leadership(
    harness: &dyn Harness,
) -> Outcome {
    loses_its_place(harness, false).await
}

pub(in crate::conformance) async fn a_removed_place_ends_the_leadership(
    harness: &dyn Harness,
) -> Outcome {
    loses_its_place(harness, true).await
}

async fn loses_its_place(harness: &dyn Harness, removed: bool) -> Outcome {
    let stage = Stage::new(harness);
    let first = stage.node(0, stage.long()).await;
    let second = stage.node(1, stage.long()).await;
    let old = stage.lead(&first, b"old").await?;
    let next = stage.queue_up(&second, b"next", 2).await?;
    if removed {
        harness.delete(old.token()).await;
    } else {
        harness.expire(old.token()).await;
    }
    let loss = stage.soon("the leader loses", old.lost()).await?;
    ensure!(
        loss == Loss::Removed,
        "it lost, but with the reason: {loss}"
    );
    ensure!(!old.is_valid(), "it is valid after its loss");
    let outcome = old.resign().await;
    ensure!(
        outcome == Resigned::AlreadyOver,
        "resigning what is lost: {outcome}"
    );
    let again = stage.campaign(&first, b"old");
    let new = next.wins("the next one").await?;
    let queue = stage.queued(2).await?;
    ensure!(
        old.token() < new.token() && new.token() == queue[0],
        "token {} followed {}, the queue is {queue:?}",
        new.token(),
        old.token()
    );
    stage.released(&new).await?;
    let again = again.wins("the old leader in its turn").await?;
    ensure!(
        again.token() == queue[1] && !old.is_valid(),
        "the old leader leads again with token {}, the queue was {queue:?}",
        again.token()
    );
    Ok(())
}

pub(in crate::conformance) async fn a_short_cut_costs_nothing(harness: &dyn Harness) -> Outcome {
    let stage = Stage::new(harness);
    let config = stage.medium();
    let (ttl, outage) = (config.ttl, config.ttl / 3);
    let election = stage.node(0, config).await;
    let leadership = stage.lead(&election, b"n").await?;
    for cut in [Cut::Requests, Cut::Answers] {
        harness.cut(0, cut).await;
        tokio::time::sleep(outage).await;
        harness.heal(0).await;
        let healed_at = harness.now();
        // Renewed after the cut: the deadline is beyond what was sent before it.
        let renewed = async {
            while leadership.is_valid() && leadership.deadline() < healed_at + ttl / 2 {
                tokio::time::sleep(Duration::from_millis(5)).await;
            }
        };
        stage.soon("renewals go on after the cut", renewed).await?;
        let queue = harness.queue().await;
        ensure!(
            leadership.is_valid() && queue == [leadership.token()],
            "{cut:?} cut for {outage:?} of {ttl:?} cost the leadership, the queue is {queue:?}"
        );
    }
    Ok(())
}

pub(in crate::conformance) async fn a_long_cut_ends_at_the_deadline(
    harness: &dyn Harness,
) -> Outcome {
    for cut in [Cut::Requests, Cut::Answers] {
        let stage = Stage::new(harness);
        let election = stage.node(0, stage.short()).await;
        let old = stage.lead(&election, b"n").await?;
        harness.cut(0, cut).await;
        let cut_at = harness.now();
        let deadline = {
            let mut last = old.deadline();
            while old.is_valid() {
                last = last.max(old.deadline());
                tokio::time::sleep(Duration::from_millis(1)).await;
                ensure!(
                    harness.now() < cut_at + stage.patience,
                    "renewals went on with {cut:?} cut"
                );
            }
            last
        };
        let ended_at = harness.now();
        let loss = stage.soon("the leader loses", old.lost()).await?;
        ensure!(
            loss == Loss::Expired && ended_at >= deadline,
            "with {cut:?} cut it lost at {ended_at:?} ({loss}), its deadline was {deadline:?}"
        );
        harness.heal(0).await;
        let new = stage.lead(&election, b"n").await?;
        ensure!(
            new.token() > old.token() && !old.is_valid() && old.deadline().is_zero(),
            "after the cut token {} leads, the lost one was {}",
            new.token(),
            old.token()
        );
        stage.released(&new).await?;
    }
    Ok(())
}

pub(in crate::conformance) async fn a_lost_leader_proclaims_nothing(
    harness: &dyn Harness,
) -> Outcome {
    let stage = Stage::new(harness);
    let election = stage.node(0, stage.long()).await;
    let mut seen = election.observe();
    for removed in [false, true] {
        let leadership = stage.lead(&election, b"n").await?;
        if removed {
            harness.delete(leadership.token()).await;
        } else {
            harness.expire(leadership.token()).await;
        }
        // Whether this side knows of the loss already or learns of it now.
        for _ in 0..2 {
            let refused = leadership.proclaim(b"ghost").await;
            let kind = refused.as_ref().map_err(crate::Error::kind);
            ensure!(
                kind == Err(ErrorKind::Lost),
                "a lost leader proclaimed a value: {refused:?}"
            );
        }
        ensure!(!leadership.is_valid(), "it is valid after its loss");
        stage.queued(0).await?;
        let nobody = seen.wait_for(|leader| {
            leader
                .as_ref()
                .is_none_or(|leader| leader.value == b"ghost")
        });
        let shown = stage.soon("observers see nobody", nobody).await?;
        let shown = shown.map_err(|e| e.to_string())?.clone();
        ensure!(
            shown.is_none(),
            "observers see the value of a lost leader: {shown:?}"
        );
    }
    Ok(())
}

pub(in crate::conformance) async fn a_leader_without_progress_loses(
    harness: &dyn Harness,
) -> Outcome {
    let stage = Stage::new(harness);
    // The second time it cannot give its place back: the lease has to end.
    for is_cut in [false, true] {
        let moves = Arc::new(AtomicBool::new(true));
        let asked = Arc::clone(&moves);
        let stalls = stage
            .short()
            .with_renew_while(move || asked.load(Ordering::SeqCst));
        let first = stage.node(0, stalls).await;
        let second = stage.node(1, stage.short()).await;
        let old = stage.lead(&first, b"old").await?;
        let next = stage.queue_up(&second, b"next", 2).await?;
        tokio::time::sleep(stage.ttl + stage.ttl / 4).await;
        ensure!(old.is_valid(), "a leader with progress lost");
        moves.store(false, Ordering::SeqCst);
        if is_cut {
            harness.cut(0, Cut::Requests).await;
        }
        let loss = stage
            .soon("a leader without progress loses", old.lost())
            .await?;
        ensure!(
            loss == Loss::Stalled,
            "it lost, but with the reason: {loss}"
        );
        let new = next.wins("the next one").await?;
        harness.heal(0).await;
        stage.released(&new).await?;
    }
    Ok(())
}

pub(in crate::conformance) async fn a_renewal_of_a_gone_place_confirms_nothing(
    harness: &dyn Harness,
) -> Outcome {
    let stage = Stage::new(harness);
    for removed in [false, true] {
        let config = stage.medium();
        let in_flight = config.renew_every + config.renew_timeout / 2;
        let election = stage.node(0, config).await;
        let old = stage.lead(&election, b"n").await?;
        // The first that the store hears after the cut is a renewal: the notice of the loss
        // has broken with it, and comes after a pause.
        harness.cut(0, Cut::Requests).await;
        tokio::time::sleep(in_flight).await;
        let before = old.deadline();
        ensure!(!before.is_zero(), "it lost before its deadline");
        if removed {
            harness.delete(old.token()).await;
        } else {
            harness.expire(old.token()).await;
        }
        let highest = follow(&old);
        harness.heal(0).await;
        let loss = stage.soon("the leader loses", old.lost()).await?;
        let after = *highest.lock().unwrap_or_else(PoisonError::into_inner);
        ensure!(
            loss == Loss::Removed && after <= before,
            "a place that was gone was renewed: the deadline went from {before:?} to {after:?},              then it was lost: {loss}"
        );
    }
    Ok(())
}
