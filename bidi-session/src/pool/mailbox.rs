//! Events of one worker that the owner has not taken yet.
//!
//! Messages have a bound, for which the worker's task waits before it reads its
//! stream; only the last ones of a session whose transport is gone may lie beyond it,
//! those of one session at a time. What tells of sessions has no bound of its own but is folded: failed
//! attempts into the last one, and sessions without a message, where many wait
//! already, into nothing. So a full mailbox never hides the end of a session whose
//! beginning was taken.

use std::collections::VecDeque;
use std::sync::{Mutex, MutexGuard, PoisonError};

use tokio::sync::Notify;

use crate::event::{Event, EventKind};
use crate::worker::WorkerId;

/// Events about sessions that wait before silent sessions are left out.
const MAX_SESSION_EVENTS: usize = 64;

/// Messages beyond the bound, of a session whose transport is gone.
///
/// They were in the transport's windows before, which bound their bytes.
const MAX_BEYOND: usize = 65_536;

/// Events of one worker.
pub(crate) struct Mailbox<In> {
    worker: WorkerId,
    limit: usize,
    mail: Mutex<Mail<In>>,
    has_room: Notify,
}

struct Mail<In> {
    events: VecDeque<(u64, EventKind<In>)>,
    messages: usize,
    // The last session that may have messages beyond the bound.
    beyond: u64,
    is_listed: bool,
    // An entry of the pool still tells something.
    is_used: bool,
}

/// What is left in a mailbox from which events were taken.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Left {
    /// More events.
    More,
    /// Nothing, and an entry of the pool may tell more.
    Nothing,
    /// Nothing, and no entry tells more.
    Unused,
}

// ===== impl Mailbox =====

impl<In> Mailbox<In> {
    pub(crate) fn new(worker: WorkerId, limit: usize) -> Self {
        Self {
            worker,
            limit,
            mail: Mutex::new(Mail {
                events: VecDeque::new(),
                messages: 0,
                beyond: 0,
                is_listed: false,
                is_used: false,
            }),
            has_room: Notify::new(),
        }
    }

    pub(crate) fn worker(&self) -> &WorkerId {
        &self.worker
    }

    pub(crate) fn set_used(&self, is_used: bool) {
        self.lock().is_used = is_used;
    }

    pub(crate) fn is_unused(&self) -> bool {
        let mail = self.lock();
        !mail.is_used && !mail.is_listed && mail.events.is_empty()
    }

    /// Queues events about sessions; says whether the mailbox is to be listed.
    pub(crate) fn tell(
        &self,
        told: Vec<(u64, EventKind<In>)>,
        is_abandoned: impl Fn() -> bool,
    ) -> bool {
        let mut mail = self.lock();
        for (generation, kind) in told {
            if matches!(kind, EventKind::Removed) {
                mail.is_used = false;
            }
            // Asked under the lock that the abandoning takes after it set its flag.
            if !is_abandoned() {
                mail.fold(generation, kind);
            }
        }
        mail.list()
    }

    /// Queues messages, or leaves them where nobody will take them; says whether the
    /// mailbox is to be listed.
    pub(crate) fn deliver(
        &self,
        generation: u64,
        messages: &mut Vec<In>,
        is_abandoned: impl Fn() -> bool,
    ) -> bool {
        let mut mail = self.lock();
        if is_abandoned() {
            return false;
        }
        mail.messages += messages.len();
        let events = messages.drain(..).map(EventKind::Message);
        mail.events.extend(events.map(|kind| (generation, kind)));
        mail.list()
    }

    /// Returns how many messages find room; only the worker's task adds any.
    pub(crate) fn room(&self) -> usize {
        self.limit.saturating_sub(self.lock().messages)
    }

    /// Waits until there is room; only the worker's task waits.
    pub(crate) async fn has_room(&self) {
        loop {
            let has_room = self.has_room.notified();
            if self.room() > 0 {
                return;
            }
            has_room.await;
        }
    }

    /// Returns how many of the last messages of this session may still be queued;
    /// none while those of another one lie beyond the bound.
    pub(crate) fn room_beyond(&self, generation: u64) -> usize {
        let mut mail = self.lock();
        if mail.messages <= self.limit {
            mail.beyond = generation;
        }
        if mail.beyond != generation {
            return 0;
        }
        (self.limit.saturating_add(MAX_BEYOND)).saturating_sub(mail.messages)
    }

    /// Moves up to `count` events to the batch; says what is left.
    pub(crate) fn take(&self, count: usize, batch: &mut VecDeque<Event<In>>) -> Left {
        let mut mail = self.lock();
        let count = count.min(mail.events.len());
        let mut messages = 0;
        for (generation, kind) in mail.events.drain(..count) {
            messages += usize::from(matches!(kind, EventKind::Message(_)));
            batch.push_back(Event {
                worker: self.worker.clone(),
                generation,
                kind,
            });
        }
        mail.messages -= messages;
        mail.is_listed = !mail.events.is_empty();
        let left = match (mail.is_listed, mail.is_used) {
            (true, _) => Left::More,
            (false, true) => Left::Nothing,
            (false, false) => Left::Unused,
        };
        drop(mail);
        if messages > 0 {
            self.has_room.notify_one();
        }
        left
    }

    /// Drops everything and returns how many messages that were.
    pub(crate) fn clear(&self) -> usize {
        let mut mail = self.lock();
        let dropped = std::mem::take(&mut mail.events);
        let messages = std::mem::take(&mut mail.messages);
        mail.is_listed = false;
        drop(mail);
        // Outside of the lock: dropping a message is user code.
        drop(dropped);
        self.has_room.notify_one();
        messages
    }

    fn lock(&self) -> MutexGuard<'_, Mail<In>> {
        self.mail.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

// ===== impl Mail =====

impl<In> Mail<In> {
    fn fold(&mut self, generation: u64, kind: EventKind<In>) {
        match &kind {
            EventKind::AttemptFailed { .. } => {
                self.pop_back(|last| matches!(last, EventKind::AttemptFailed { .. }))
            }
            EventKind::HigherTerm { .. } => self.pop_back(|last| {
                let is_attempt = matches!(last, EventKind::AttemptFailed { .. });
                is_attempt || matches!(last, EventKind::HigherTerm { .. })
            }),
            EventKind::Removed if self.is_crowded() => {
                self.pop_back(|last| {
                    let is_attempt = matches!(last, EventKind::AttemptFailed { .. });
                    is_attempt || matches!(last, EventKind::HigherTerm { .. } | EventKind::Removed)
                });
            }
            EventKind::Disconnected { .. } if self.is_crowded() => {
                let has_begun = |(began, last): &(u64, EventKind<In>)| {
                    *began == generation && matches!(last, EventKind::Connected { .. })
                };
                if self.events.back().is_some_and(has_begun) {
                    self.events.pop_back();
                    return;
                }
            }
            _ => {}
        }
        self.events.push_back((generation, kind));
    }

    fn is_crowded(&self) -> bool {
        self.events.len() - self.messages >= MAX_SESSION_EVENTS
    }

    fn pop_back(&mut self, is_folded: impl Fn(&EventKind<In>) -> bool) {
        while self.events.back().is_some_and(|(_, last)| is_folded(last)) {
            self.events.pop_back();
        }
    }

    fn list(&mut self) -> bool {
        let is_news = !self.is_listed && !self.events.is_empty();
        self.is_listed |= is_news;
        is_news
    }
}
