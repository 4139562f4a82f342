//! The task of one worker: performs what its state machine decides.

use std::panic::AssertUnwindSafe;
use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use futures_util::FutureExt;

use crate::connector::{Attempt, Connector, Failure, OpenClass, OpenError, Opened};
use crate::core::peer::{Input, Stage};
use crate::event::DisconnectReason;
use crate::outbox::{Outbox, OutboxSender, Room, metered};
use crate::pool::reader::read;
use crate::pool::shared::Shared;
use crate::pool::slot::Slot;

/// A worker's place in the pool, held by its task.
///
/// Only a runtime that shuts down drops the task of a worker that is still in the pool.
/// No task of the pool runs from there on, so the pool is closed: its sessions are gone,
/// and nobody must wait for them.
pub(crate) struct Tenure<C: Connector> {
    pub(crate) pool: Arc<Shared<C>>,
    pub(crate) slot: Arc<Slot<C>>,
}

impl<C: Connector> Drop for Tenure<C> {
    fn drop(&mut self) {
        if self.slot.stage() != Stage::Gone {
            self.pool.close();
        }
    }
}

/// Keeps the worker connected until it has left the pool.
pub(crate) async fn drive<C: Connector>(tenure: Tenure<C>) {
    let Tenure { pool, slot } = &tenure;
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
        // Its place in the queue is kept over what wakes it: a worker that is moved again
        // and again would never have its turn.
        let mut turn = pin!(pool.config.dial_limit.permits.acquire());
        let permit = loop {
            tokio::select! {
                biased;
                () = slot.woken() => {}
                permit = turn.as_mut() => break permit,
            }
            if slot.stage() == Stage::Gone {
                return;
            }
        };
        let attempt = pool.attempt(slot.id());
        let generation = attempt.generation;
        let run = AssertUnwindSafe(run(pool, slot, attempt, permit));
        if run.catch_unwind().await.is_err() {
            survive_panic(pool, slot, generation);
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
    let (sender, outbox) = metered(limit, pool.tally.meters.outbox());
    let Some(place) = slot.begin(pool.clock.now(), generation, sender.clone()) else {
        return;
    };
    attempt.incarnation = place.incarnation;
    let opened = tokio::select! {
        biased;
        () = slot.over(generation) => return,
        opened = async {
            greet(pool, &attempt, &sender)?;
            open(pool, place.target.clone(), attempt, outbox).await
        } => opened,
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
                slot.log().began(now, generation, incarnation);
            }
            let read = read(pool, slot, generation, inbound, &sender);
            match slot.log().owed_at() {
                // Nearly always: not asked for each message, then.
                None => read.await,
                Some(due) => tokio::select! {
                    biased;
                    () = read => {}
                    () = pay_log(pool, slot, generation, due) => {}
                },
            }
        }
        Err(error) => {
            slot.log().failed(now, generation, &error);
            let aftermath = slot.step(&pool.inbox, now, Input::Failed { generation, error });
            pool.settle(slot, aftermath);
        }
    }
}

/// Queues the first messages of a stream.
fn greet<C: Connector>(
    pool: &Shared<C>,
    attempt: &Attempt,
    sender: &OutboxSender<C::Out>,
) -> Result<(), OpenError> {
    for message in pool.connector.greeting(attempt) {
        let size = pool.connector.size(&message);
        let queued = pool.check_size(size).and_then(|()| {
            let pushed = sender.try_push(message, size);
            pushed.map_err(|(why, _)| pool.kind_of(why, size))
        });
        if let Err(why) = queued {
            let text = format!("the greeting cannot be queued: {why}");
            return Err(OpenError::new(OpenClass::Unreachable, text));
        }
    }
    Ok(())
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

/// Tells of a session whose beginning was kept from the log, when it may be told; never
/// ends.
async fn pay_log<C: Connector>(pool: &Shared<C>, slot: &Slot<C>, generation: u64, due: Duration) {
    pool.clock.sleep_until(due).await;
    slot.log().pay(pool.clock.now(), generation);
    std::future::pending().await
}

/// A panic of the connector ends the attempt or session, not the worker's entry.
fn survive_panic<C: Connector>(pool: &Shared<C>, slot: &Slot<C>, generation: u64) {
    const TEXT: &str = "the connector panicked";
    let is_session = slot.generation() == Some(generation);
    slot.log()
        .panicked(pool.clock.now(), generation, is_session);
    let input = if is_session {
        let reason = DisconnectReason::Failed(Failure::new(TEXT));
        Input::Ended { generation, reason }
    } else {
        let error = OpenError::new(OpenClass::Unreachable, TEXT);
        Input::Failed { generation, error }
    };
    let aftermath = slot.step(&pool.inbox, pool.clock.now(), input);
    pool.settle(slot, aftermath);
}
