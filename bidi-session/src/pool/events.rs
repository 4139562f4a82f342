//! The owner's end of the events.

use std::collections::VecDeque;
use std::fmt;
use std::sync::Arc;

use crate::connector::Connector;
use crate::event::{Event, EventKind};
use crate::pool::inbox::Inbox;

/// What happens to the workers of a pool, in order for each worker and fair
/// between them.
///
/// Messages that are not taken stop the reading of that worker's stream only, and do
/// not hide that it broke. Events about sessions always find room: failed attempts that
/// were not taken are told as one, and where 64 such events wait, a session without a
/// message is not told at all. Dropping this stops nothing: messages are then discarded,
/// and counted in [`Counters::discarded`](crate::Counters::discarded). It does not keep
/// the pool alive.
pub struct Events<C: Connector> {
    inbox: Arc<Inbox<C::In>>,
    batch: VecDeque<Event<C::In>>,
}

impl<C: Connector> Events<C> {
    pub(crate) fn new(inbox: Arc<Inbox<C::In>>) -> Self {
        Self {
            inbox,
            batch: VecDeque::new(),
        }
    }

    /// Waits for the next event; `None` when the pool is closed and all were taken.
    ///
    /// # Cancel safety
    ///
    /// Cancel safe: no event is lost when the future is dropped.
    pub async fn recv(&mut self) -> Option<Event<C::In>> {
        // An owner that is slower than its workers would never find this empty, and keep
        // its other tasks and time limits waiting.
        tokio::task::coop::consume_budget().await;
        loop {
            if let Some(event) = self.batch.pop_front() {
                return Some(event);
            }
            let Self { inbox, batch } = self;
            if !std::future::poll_fn(|cx| inbox.poll_take(cx, batch)).await {
                return None;
            }
        }
    }

    /// Returns the next event if one is ready.
    pub fn try_recv(&mut self) -> Option<Event<C::In>> {
        while self.batch.is_empty() && self.inbox.take(&mut self.batch) {}
        self.batch.pop_front()
    }
}

impl<C: Connector> Drop for Events<C> {
    fn drop(&mut self) {
        let is_message = |event: &&Event<C::In>| matches!(event.kind, EventKind::Message(_));
        let taken = self.batch.iter().filter(is_message).count();
        self.inbox.count_discarded(taken);
        self.inbox.abandon();
    }
}

impl<C: Connector> fmt::Debug for Events<C> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Events").finish_non_exhaustive()
    }
}
