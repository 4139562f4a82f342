//! Finds the sessions of a round's targets; those of the last one are not looked up again.

use std::collections::HashSet;
use std::sync::{Arc, Weak};

use crate::connector::Connector;
use crate::core::rounds::Roster;
use crate::error::{InjectError, SendErrorKind};
use crate::event::DisconnectReason;
use crate::outbox::OutboxSender;
use crate::pool::Shared;
use crate::pool::slot::Slot;
use crate::worker::WorkerId;

/// The workers of a round, each on one session, and the outboxes of those.
///
/// An outbox belongs to one session and is closed with it, so one that is open is still
/// its worker's.
pub(crate) struct Roll<C: Connector> {
    roster: Arc<Roster>,
    // In the roster's order.
    outboxes: Vec<OutboxSender<C::Out>>,
    // Weak: a worker that was removed is not kept for the sake of a next round.
    slots: Vec<Weak<Slot<C>>>,
}

/// Targets on their way into a roll.
struct Search<'a, C: Connector> {
    shared: &'a Shared<C>,
    seen: HashSet<WorkerId>,
    members: Vec<(WorkerId, u64)>,
    outboxes: Vec<OutboxSender<C::Out>>,
    slots: Vec<Weak<Slot<C>>>,
    refused: Vec<(WorkerId, SendErrorKind)>,
}

// ===== impl Roll =====

impl<C: Connector> Roll<C> {
    pub(crate) fn roster(&self) -> &Arc<Roster> {
        &self.roster
    }

    pub(crate) fn outboxes(&self) -> &[OutboxSender<C::Out>] {
        &self.outboxes
    }

    /// Returns why the session at this place ended, whose outbox is closed.
    pub(crate) fn end_of(&self, place: usize) -> DisconnectReason {
        let (_, generation) = self.roster.members()[place];
        match self.slots[place].upgrade() {
            Some(slot) => slot.end_of(generation),
            None => DisconnectReason::Removed,
        }
    }

    /// Says whether this worker is at this place, and has the same session still.
    fn holds(&self, place: usize, worker: &str) -> bool {
        let is_named = |(named, _): &(WorkerId, u64)| named.as_str() == worker;
        self.roster.members().get(place).is_some_and(is_named) && !self.outboxes[place].is_closed()
    }
}

impl<C: Connector> Shared<C> {
    /// Finds the session of each target, one that is named twice once.
    pub(crate) fn call_roll<I>(&self, targets: I) -> Result<Arc<Roll<C>>, InjectError>
    where
        I: IntoIterator,
        I::Item: AsRef<str>,
    {
        let last = self.last_roll().clone();
        let mut targets = targets.into_iter();
        let (mut same, mut other) = (0, None);
        for target in targets.by_ref() {
            let is_same = last
                .as_ref()
                .is_some_and(|roll| roll.holds(same, target.as_ref()));
            if !is_same {
                other = Some(target);
                break;
            }
            same += 1;
        }
        let mut search = Search::new(self);
        if let Some(last) = last {
            if other.is_none() && same == last.outboxes.len() {
                return Ok(last);
            }
            let known = &last.roster.members()[..same];
            known
                .iter()
                .for_each(|(worker, _)| search.look_up(worker.as_str()));
        }
        for target in other.into_iter().chain(targets) {
            search.look_up(target.as_ref());
        }
        let roll = Arc::new(search.end()?);
        let old = self.last_roll().replace(roll.clone());
        // Not under the lock: it may hold the last of what sessions have left.
        drop(old);
        Ok(roll)
    }
}

// ===== impl Search =====

impl<'a, C: Connector> Search<'a, C> {
    fn new(shared: &'a Shared<C>) -> Self {
        Self {
            shared,
            seen: HashSet::new(),
            members: Vec::new(),
            outboxes: Vec::new(),
            slots: Vec::new(),
            refused: Vec::new(),
        }
    }

    fn look_up(&mut self, target: &str) {
        let slot = self.shared.slot(target);
        let worker = slot
            .as_ref()
            .map_or_else(|| target.into(), |slot| slot.id().clone());
        if !self.seen.insert(worker.clone()) {
            return;
        }
        let Some(slot) = slot else {
            self.refused.push((worker, SendErrorKind::Unknown));
            return;
        };
        match slot.session() {
            Some((generation, outbox)) => {
                self.members.push((worker, generation));
                self.outboxes.push(outbox);
                self.slots.push(Arc::downgrade(&slot));
            }
            None => self.refused.push((worker, SendErrorKind::NotConnected)),
        }
    }

    fn end(self) -> Result<Roll<C>, InjectError> {
        if !self.refused.is_empty() {
            let refused = self.refused;
            return Err(InjectError::NotQueued { refused });
        }
        Ok(Roll {
            roster: Arc::new(Roster::new(self.members)),
            outboxes: self.outboxes,
            slots: self.slots,
        })
    }
}
