//! Who wins, when, and with what.

use std::{future::poll_fn, pin::Pin, sync::PoisonError, task::Poll, time::Duration};

use crate::{
    Leadership,
    conformance::{
        Cut, Harness,
        stage::{Campaign, Outcome, Stage, ensure, follow},
    },
};

pub(in crate::conformance) async fn tokens_rise(harness: &dyn Harness) -> Outcome {
    let stage = Stage::new(harness);
    let (mut last, mut scope) = (None, None);
    for round in 0..6 {
        // A fresh handle: tokens rise over restarts, too.
        let election = stage.node(round % 2, stage.long()).await;
        let leadership = stage.lead(&election, b"n").await?;
        let token = leadership.token();
        ensure!(last < Some(token), "token {token} came after {last:?}");
        let same = scope.get_or_insert_with(|| leadership.scope().to_owned());
        ensure!(
            same == leadership.scope(),
            "the scope changed from {same} to {}",
            leadership.scope()
        );
        leadership
            .proclaim(b"n2")
            .await
            .map_err(|e| e.to_string())?;
        ensure!(leadership.token() == token, "proclaiming changed the token");
        match round % 3 {
            0 => stage.released(&leadership).await?,
            1 => drop(leadership),
            _ => {
                harness.expire(token).await;
                stage
                    .soon("a revoked leader loses", leadership.lost())
                    .await?;
            }
        }
        last = Some(token);
    }
    Ok(())
}

pub(in crate::conformance) async fn candidates_lead_in_the_order_of_joining(
    harness: &dyn Harness,
) -> Outcome {
    let stage = Stage::new(harness);
    let nodes = [
        stage.node(0, stage.long()).await,
        stage.node(1, stage.long()).await,
    ];
    let mut leads = stage.lead(&nodes[0], b"0").await?;
    let mut waiting = Vec::new();
    for number in 1..=5 {
        let value = number.to_string();
        let node = &nodes[number % 2];
        waiting.push(stage.queue_up(node, value.as_bytes(), number + 1).await?);
    }
    let order = harness.queue().await;
    for (number, next) in (1..).zip(waiting) {
        ensure!(!next.is_over(), "candidate {number} led out of turn");
        stage.released(&leads).await?;
        leads = next
            .wins(&format!("candidate {number} in its turn"))
            .await?;
        let token = leads.token();
        ensure!(
            order.get(number) == Some(&token),
            "token {token} led as number {number} of the queue {order:?}"
        );
    }
    Ok(())
}

pub(in crate::conformance) async fn candidates_that_start_together_lead_one_by_one(
    harness: &dyn Harness,
) -> Outcome {
    let stage = Stage::new(harness);
    let nodes = [
        stage.node(0, stage.long()).await,
        stage.node(1, stage.long()).await,
    ];
    let mut last = None;
    // Which of them comes first is left to chance.
    let rounds = if harness.is_simulated() { 25 } else { 4 };
    for round in 0..rounds {
        let campaigns = (0..8).map(|number| stage.campaign(&nodes[number % 2], b"n"));
        let mut campaigns: Vec<_> = campaigns.collect();
        let order = stage.queued(campaigns.len()).await?;
        ensure!(
            order.is_sorted_by(|before, after| before < after) && last < order.first().copied(),
            "candidates that start together make the queue {order:?} in round {round}, after \
             token {last:?}"
        );
        for expected in order {
            let won = stage.soon("one of them leads", first_of(&mut campaigns));
            let leads = won.await??;
            ensure!(
                leads.token() == expected && !campaigns.iter().any(Campaign::is_over),
                "token {} led in round {round}, alone: {}; it was the turn of token {expected}",
                leads.token(),
                !campaigns.iter().any(Campaign::is_over)
            );
            last = Some(expected);
            stage.released(&leads).await?;
        }
    }
    Ok(())
}

/// Takes out the first campaign that ends.
async fn first_of(campaigns: &mut Vec<Campaign>) -> Outcome<Leadership> {
    poll_fn(|context| {
        for index in 0..campaigns.len() {
            if let Poll::Ready(won) = Pin::new(&mut campaigns[index]).poll(context) {
                campaigns.swap_remove(index);
                return Poll::Ready(won);
            }
        }
        Poll::Pending
    })
    .await
}

pub(in crate::conformance) async fn one_leader_at_a_time(harness: &dyn Harness) -> Outcome {
    for cut in [Cut::Requests, Cut::Answers] {
        let stage = Stage::new(harness);
        let first = stage.node(0, stage.short()).await;
        let second = stage.node(1, stage.short()).await;
        let old = stage.lead(&first, b"old").await?;
        let next = stage.queue_up(&second, b"next", 2).await?;
        let deadline = follow(&old);
        harness.cut(0, cut).await;
        let new = next
            .wins("the successor of a leader that was cut off")
            .await?;
        let won_at = harness.now();
        let until = *deadline.lock().unwrap_or_else(PoisonError::into_inner);
        ensure!(
            !(old.is_valid() && new.is_valid()) && until <= won_at,
            "token {} led at {won_at:?} while token {} was valid until {until:?}, {cut:?} cut",
            new.token(),
            old.token()
        );
        harness.heal(0).await;
        stage
            .soon("the old leader learns of its loss", old.lost())
            .await?;
        ensure!(!old.is_valid(), "the old leader came back after the cut");
        stage.released(&new).await?;
    }
    Ok(())
}

pub(in crate::conformance) async fn a_win_is_fresh(harness: &dyn Harness) -> Outcome {
    let stage = Stage::new(harness);
    let config = stage.short();
    let least = config.reserve + config.renew_timeout / 2;
    let first = stage.node(0, config.clone()).await;
    let second = stage.node(1, config).await;
    let old = stage.lead(&first, b"old").await?;
    let next = stage.queue_up(&second, b"next", 2).await?;
    let before = harness.queue().await;
    tokio::time::sleep(2 * stage.ttl + stage.ttl / 4).await;
    let after = harness.queue().await;
    ensure!(
        before == after,
        "the queue {before:?} became {after:?} while nothing happened for two TTLs"
    );
    stage.released(&old).await?;
    let new = next.wins("a candidate that waited for two TTLs").await?;
    let left = new.deadline().saturating_sub(harness.now());
    ensure!(left >= least, "a new leader has {left:?} of its lease left");
    Ok(())
}

/// How often a renewal is tried whose answer comes late, but within its limit.
const LATE_TRIES: usize = 10;

pub(in crate::conformance) async fn a_deadline_counts_from_the_send(
    harness: &dyn Harness,
) -> Outcome {
    let stage = Stage::new(harness);
    // Asked right before each renewal is sent.
    let (sends, mut sent) = tokio::sync::watch::channel(0_usize);
    let config = stage.medium().with_renew_while(move || {
        sends.send_modify(|count| *count += 1);
        true
    });
    let (ttl, timeout) = (config.ttl, config.renew_timeout);
    let election = stage.node(0, config).await;
    let began = harness.now();
    let leadership = stage.lead(&election, b"n").await?;
    let won_at = harness.now();
    ensure!(
        (began..=won_at + ttl).contains(&leadership.deadline()),
        "won from {began:?} to {won_at:?}, the deadline is {:?}: of another clock or TTL",
        leadership.deadline()
    );
    for _ in 0..LATE_TRIES {
        harness.cut(0, Cut::LateAnswers).await;
        let count = *sent.borrow_and_update();
        let renews = sent.wait_for(|sent| *sent > count);
        stage
            .soon("a renewal is sent", renews)
            .await?
            .map_err(|e| e.to_string())?;
        let sent_at = harness.now();
        let before = leadership.deadline();
        tokio::time::sleep(timeout / 2).await;
        harness.heal(0).await;
        stage
            .soon("a late answer counts", extended(&leadership, before))
            .await?;
        if *sent.borrow() > count + 1 {
            // The machine was too slow for this one: it was sent again.
            continue;
        }
        let counted = leadership.deadline().saturating_sub(ttl);
        ensure!(
            counted <= sent_at,
            "a renewal sent before {sent_at:?}, whose answer came late, counts from {counted:?}"
        );
        return Ok(());
    }
    Err(format!("no renewal was answered within {:?}", timeout / 2))
}

async fn extended(leadership: &Leadership, before: Duration) {
    while leadership.is_valid() && leadership.deadline() <= before {
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
}

pub(in crate::conformance) async fn a_lost_answer_makes_no_second_place(
    harness: &dyn Harness,
) -> Outcome {
    let stage = Stage::new(harness);
    let config = stage.medium();
    let retries = 2 * config.ttl / 3;
    let election = stage.node(0, config).await;
    harness.cut(0, Cut::Answers).await;
    let campaign = stage.campaign(&election, b"n");
    tokio::time::sleep(retries).await;
    // A backend that needs several requests may not have come to the place.
    let first = harness.queue().await;
    harness.heal(0).await;
    let leadership = campaign
        .wins("a candidate whose first answers were lost")
        .await?;
    let queue = harness.queue().await;
    ensure!(
        queue == [leadership.token()] && (first.is_empty() || first == queue),
        "one candidate, whose first answers were lost, made the places {first:?}, then {queue:?}"
    );
    Ok(())
}

pub(in crate::conformance) async fn a_restart_adopts_nothing(harness: &dyn Harness) -> Outcome {
    let stage = Stage::new(harness);
    let crashed = stage.node(0, stage.short()).await;
    let old = stage.lead(&crashed, b"n1").await?;
    let token = old.token();
    let deadline = follow(&old);
    harness.cut(0, Cut::Requests).await;
    drop(old);
    let election = stage.node(1, stage.short()).await;
    let new = stage.lead(&election, b"n1").await?;
    let won_at = harness.now();
    let until = *deadline.lock().unwrap_or_else(PoisonError::into_inner);
    ensure!(
        new.token() > token && won_at >= until,
        "a candidate with a crashed leader's value got token {} after {token} at {won_at:?}, \
         the lease lasted until {until:?} at least",
        new.token()
    );
    Ok(())
}
