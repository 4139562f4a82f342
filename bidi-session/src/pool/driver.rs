//! The task of one worker: performs what its state machine decides.

use std::panic::AssertUnwindSafe;
use std::sync::Arc;
use std::time::Duration;

use futures_util::FutureExt;

use crate::connector::{Attempt, Connector, Failure, OpenClass, OpenError, Opened};
use crate::core::peer::{Input, Stage};
use crate::event::DisconnectReason;
use crate::outbox::{Outbox, Room, outbox};
use crate::pool::reader::read;
use crate::pool::shared::Shared;
use crate::pool::slot::Slot;

/// Keeps the worker connected until it has left the pool.
pub(crate) async fn drive<C: Connector>(pool: Arc<Shared<C>>, slot: Arc<Slot<C>>) {
    loop {
        let until = match slot.stage() {
            Stage::Gone => return,
            Stage::Resting { until, .. } => until,
            // Only this task leads there, and back again before it comes here.
            Stage::Dialing | Stage::Up { .. } => return,
        };
        if until > pool.clock.now() {
            tokio::select! {
                biased;
                () = slot.woken() => {}
                () = pool.clock.sleep_until(until) => {}
            }
            continue;
        }
        let permit = tokio::select! {
            biased;
            () = slot.woken() => continue,
            permit = pool.config.dial_limit.permits.acquire() => permit,
        };
        let attempt = pool.attempt(slot.id());
        let generation = attempt.generation;
        let run = AssertUnwindSafe(run(&pool, &slot, attempt, permit));
        if run.catch_unwind().await.is_err() {
            survive_panic(&pool, &slot, generation);
        }
    }
}

/// Makes one attempt, and reads the session that it opens to its end.
async fn run<C: Connector, P>(pool: &Shared<C>, slot: &Slot<C>, mut attempt: Attempt, permit: P) {
    let limit = Room {
        count: pool.config.outbox_len,
        bytes: pool.config.outbox_bytes,
    };
    let generation = attempt.generation;
    let (sender, outbox) = outbox(limit);
    let Some(place) = slot.begin(pool.clock.now(), generation, sender.clone()) else {
        return;
    };
    attempt.incarnation = place.incarnation;
    let opened = tokio::select! {
        biased;
        () = slot.over(generation) => return,
        opened = open(pool, place.target, attempt, outbox) => opened,
    };
    drop(permit);
    let now = pool.clock.now();
    match opened {
        Ok(opened) => {
            let Opened {
                inbound,
                incarnation,
                kill,
            } = opened;
            let aftermath = slot.opened(&pool.inbox, now, generation, incarnation, kill);
            pool.settle(slot, aftermath);
            if slot.generation() == Some(generation) {
                tracing::info!(worker = %slot.id(), generation, ?incarnation, "session began");
            }
            read(pool, slot, generation, inbound, &sender).await;
        }
        Err(error) => {
            log_failure(slot, generation, &error, now);
            let aftermath = slot.step(&pool.inbox, now, Input::Failed { generation, error });
            pool.settle(slot, aftermath);
        }
    }
}

async fn open<C: Connector>(
    pool: &Shared<C>,
    target: C::Target,
    attempt: Attempt,
    outbox: Outbox<C::Out>,
) -> Result<Opened<C::In>, OpenError> {
    let limit = pool.config.attempt_timeout;
    let place = pool.connector.describe(&target);
    tracing::debug!(worker = %attempt.worker, generation = attempt.generation, place, "attempt");
    // Boxed: what opening needs for a moment would stay in the task for the session's life.
    let open = Box::pin(pool.connector.open(target, attempt, outbox));
    match tokio::time::timeout(limit, open).await {
        Ok(opened) => opened,
        Err(_) => {
            let text = format!("{place}: no session within {} s", limit.as_secs_f64());
            Err(OpenError::new(OpenClass::Unreachable, text))
        }
    }
}

/// A panic of the connector ends the attempt or session, not the worker's entry.
fn survive_panic<C: Connector>(pool: &Shared<C>, slot: &Slot<C>, generation: u64) {
    const TEXT: &str = "the connector panicked";
    tracing::error!(worker = %slot.id(), generation, "{TEXT}");
    let input = if slot.generation() == Some(generation) {
        let reason = DisconnectReason::Failed(Failure::new(TEXT));
        Input::Ended { generation, reason }
    } else {
        let error = OpenError::new(OpenClass::Unreachable, TEXT);
        Input::Failed { generation, error }
    };
    let aftermath = slot.step(&pool.inbox, pool.clock.now(), input);
    pool.settle(slot, aftermath);
}

/// Warns of the first failures and then ever more rarely.
fn log_failure<C: Connector>(slot: &Slot<C>, generation: u64, error: &OpenError, now: Duration) {
    let worker = slot.id();
    let attempts = slot.state(now).attempts + 1;
    if attempts.is_power_of_two() {
        tracing::warn!(%worker, generation, attempts, %error, "attempt failed");
    } else {
        tracing::debug!(%worker, generation, attempts, %error, "attempt failed");
    }
}
