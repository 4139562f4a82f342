//! Barrier rounds: one message to each of several workers, or to none.

use crate::connector::Connector;
use crate::core::rounds::Unfit;
use crate::error::InjectError;
use crate::outbox::Reservation;
use crate::pool::board::Round;
use crate::pool::roll::Roll;
use crate::pool::{Pool, Shared};
use crate::worker::WorkerId;

/// Room for a worker's message, and the message.
type Loaded<'a, Out> = (Reservation<'a, Out>, Out);

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
        make: impl FnMut(&WorkerId) -> C::Out,
    ) -> Result<Round<C::In>, InjectError>
    where
        I: IntoIterator,
        I::Item: AsRef<str>,
    {
        let shared = self.shared();
        shared.board.check(id).map_err(to_inject_error)?;
        let roll = shared.call_roll(targets)?;
        let loaded = load(shared, &roll, make)?;
        let round = shared.board.begin(id, roll.roster().clone());
        let round = round.map_err(to_inject_error)?;
        for (place, (room, message)) in loaded.into_iter().enumerate() {
            if !room.push(message) {
                // The session ended in between; its own end may have come before the round.
                let (worker, generation) = &roll.roster().members()[place];
                shared.board.fail(worker, *generation, &roll.end_of(place));
            }
        }
        Ok(round)
    }
}

/// Makes each worker's message and takes room for it.
fn load<'a, C: Connector>(
    shared: &Shared<C>,
    roll: &'a Roll<C>,
    mut make: impl FnMut(&WorkerId) -> C::Out,
) -> Result<Vec<Loaded<'a, C::Out>>, InjectError> {
    let mut loaded = Vec::with_capacity(roll.outboxes().len());
    let mut refused = Vec::new();
    for ((worker, _), outbox) in roll.roster().members().iter().zip(roll.outboxes()) {
        let message = make(worker);
        let size = shared.connector.size(&message);
        let reserved = shared.check_size(size).and_then(|()| {
            let room = outbox.try_reserve(size);
            room.map_err(|why| shared.kind_of(why, size))
        });
        match reserved {
            Ok(room) => loaded.push((room, message)),
            Err(kind) => refused.push((worker.clone(), kind)),
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
