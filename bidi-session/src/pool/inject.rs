//! Barrier rounds: one message to each of several workers, or to none.

use std::collections::HashSet;
use std::sync::Arc;

use crate::connector::Connector;
use crate::core::rounds::Unfit;
use crate::error::{InjectError, SendErrorKind};
use crate::outbox::{OutboxSender, Reservation};
use crate::pool::board::Round;
use crate::pool::slot::Slot;
use crate::pool::{Pool, Shared};
use crate::worker::WorkerId;

/// A worker of a round with its session.
struct Asked<C: Connector> {
    slot: Arc<Slot<C>>,
    generation: u64,
    outbox: OutboxSender<C::Out>,
}

/// Room for a worker's message, and the message.
type Loaded<Out> = (Reservation<Out>, Out);

impl<C: Connector> Pool<C> {
    /// Queues a message to each target, or to none, and returns the round that
    /// collects their answers.
    ///
    /// `id` is what the answers are recognized by: the message must carry it, and the
    /// connector's function must find it in the answer. Where the two differ the round
    /// times out, and [`Counters::unknown`](crate::Counters::unknown) counts the answers;
    /// where that function finds none, as it does when none was given, they are events.
    /// Ids rise: each is above the last one of this pool. Several rounds may be in flight,
    /// and may be collected in any order.
    ///
    /// `make` makes each worker's message, in the order of the targets; a target
    /// that is named twice is asked once. A worker that is lost after this fails the
    /// round.
    ///
    /// # Errors
    ///
    /// [`InjectError`]: nothing was queued to anyone, and the id is not used up.
    pub fn inject<I>(
        &self,
        id: u64,
        targets: I,
        mut make: impl FnMut(&WorkerId) -> C::Out,
    ) -> Result<Round<C::In>, InjectError>
    where
        I: IntoIterator,
        I::Item: AsRef<str>,
    {
        let shared = self.shared();
        shared.board.check(id).map_err(to_inject_error)?;
        let asked = find(shared, targets)?;
        let messages: Vec<C::Out> = asked.iter().map(|one| make(one.slot.id())).collect();
        let loaded = reserve(shared, &asked, messages)?;
        let targets = asked
            .iter()
            .map(|one| (one.slot.id().clone(), one.generation));
        let round = shared.board.begin(id, targets.collect());
        let round = round.map_err(to_inject_error)?;
        for (one, (reservation, message)) in asked.iter().zip(loaded) {
            if !reservation.push(message) {
                // The session ended in between; its own end may have come before the round.
                let reason = one.slot.end_of(one.generation);
                shared.board.fail(one.slot.id(), one.generation, &reason);
            }
        }
        Ok(round)
    }
}

fn find<C: Connector, I>(shared: &Shared<C>, targets: I) -> Result<Vec<Asked<C>>, InjectError>
where
    I: IntoIterator,
    I::Item: AsRef<str>,
{
    let mut seen = HashSet::new();
    let mut asked = Vec::new();
    let mut refused = Vec::new();
    for target in targets {
        let target = target.as_ref();
        let slot = shared.slot(target);
        let worker = slot
            .as_ref()
            .map_or_else(|| target.into(), |slot| slot.id().clone());
        if !seen.insert(worker.clone()) {
            continue;
        }
        let Some(slot) = slot else {
            refused.push((worker, SendErrorKind::Unknown));
            continue;
        };
        match slot.session() {
            Some((generation, outbox)) => asked.push(Asked {
                slot,
                generation,
                outbox,
            }),
            None => refused.push((worker, SendErrorKind::NotConnected)),
        }
    }
    if !refused.is_empty() {
        return Err(InjectError::NotQueued { refused });
    }
    Ok(asked)
}

fn reserve<C: Connector>(
    shared: &Shared<C>,
    asked: &[Asked<C>],
    messages: Vec<C::Out>,
) -> Result<Vec<Loaded<C::Out>>, InjectError> {
    let mut loaded = Vec::with_capacity(asked.len());
    let mut refused = Vec::new();
    for (one, message) in asked.iter().zip(messages) {
        let size = shared.connector.size(&message);
        let reserved = shared.check_size(size).and_then(|()| {
            let room = one.outbox.try_reserve(size);
            room.map_err(|why| shared.kind_of(why, size))
        });
        match reserved {
            Ok(reservation) => loaded.push((reservation, message)),
            Err(kind) => refused.push((one.slot.id().clone(), kind)),
        }
    }
    if !refused.is_empty() {
        return Err(InjectError::NotQueued { refused });
    }
    Ok(loaded)
}

fn to_inject_error(unfit: Unfit) -> InjectError {
    match unfit {
        Unfit::Used { last } => InjectError::IdUsed { last },
        Unfit::Closed => InjectError::Closed,
    }
}
