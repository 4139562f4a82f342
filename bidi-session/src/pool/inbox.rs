//! The one queue between the wire and the owner: a mailbox per worker, read in turn.

use std::collections::{HashMap, VecDeque};
use std::fmt;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, Waker};

use crate::event::{Event, EventKind};
use crate::pool::mailbox::{Left, Mailbox};
use crate::pool::tally::Tally;
use crate::worker::WorkerId;

/// Events of one worker that are taken before it is the next one's turn.
const QUANTUM: usize = 16;

/// All mailboxes of a pool and the order in which they are read.
pub(crate) struct Inbox<In> {
    limit: usize,
    tally: Arc<Tally>,
    state: Mutex<State<In>>,
    is_abandoned: AtomicBool,
}

struct State<In> {
    mailboxes: HashMap<WorkerId, Arc<Mailbox<In>>>,
    // Mailboxes with events, each once.
    order: VecDeque<Arc<Mailbox<In>>>,
    reader: Option<Waker>,
    is_closed: bool,
}

// ===== impl Inbox =====

impl<In> Inbox<In> {
    pub(crate) fn new(limit: usize, tally: Arc<Tally>) -> Self {
        Self {
            limit,
            tally,
            state: Mutex::new(State {
                mailboxes: HashMap::new(),
                order: VecDeque::new(),
                reader: None,
                is_closed: false,
            }),
            is_abandoned: AtomicBool::new(false),
        }
    }

    /// Returns the worker's mailbox, with what an earlier entry left in it: its
    /// events come first.
    pub(crate) fn open(&self, worker: &WorkerId) -> Arc<Mailbox<In>> {
        let mut state = self.lock();
        let mailbox = state.mailboxes.entry(worker.clone());
        let mailbox = mailbox.or_insert_with(|| Arc::new(Mailbox::new(worker.clone(), self.limit)));
        mailbox.set_used(true);
        mailbox.clone()
    }

    /// Queues what is to be told of a worker; always finds room.
    ///
    /// Returns who is to be woken once no lock is held.
    #[must_use]
    pub(crate) fn tell(
        &self,
        mailbox: &Arc<Mailbox<In>>,
        told: Vec<(u64, EventKind<In>)>,
    ) -> Option<Waker> {
        if told.is_empty() {
            return None;
        }
        let is_news = mailbox.tell(told, || self.is_abandoned());
        self.list(mailbox, is_news)
    }

    /// Queues messages of a session; the caller has waited for room.
    ///
    /// Those that nobody will take are left for the caller to drop. Returns who is to be
    /// woken once no lock is held.
    #[must_use]
    pub(crate) fn deliver(
        &self,
        mailbox: &Arc<Mailbox<In>>,
        generation: u64,
        messages: &mut Vec<In>,
    ) -> Option<Waker> {
        if messages.is_empty() {
            return None;
        }
        let is_news = mailbox.deliver(generation, messages, || self.is_abandoned());
        let reader = self.list(mailbox, is_news);
        if !messages.is_empty() {
            self.count_discarded(messages.len());
        }
        reader
    }

    /// Takes events of the next worker in turn; `false` when the pool has ended.
    pub(crate) fn poll_take(
        &self,
        cx: &mut Context<'_>,
        batch: &mut VecDeque<Event<In>>,
    ) -> Poll<bool> {
        let mailbox = {
            let mut state = self.lock();
            let Some(mailbox) = state.order.pop_front() else {
                if state.is_closed {
                    return Poll::Ready(false);
                }
                let old = state.reader.replace(cx.waker().clone());
                // A waker is foreign code, also to drop.
                drop(state);
                drop(old);
                return Poll::Pending;
            };
            mailbox
        };
        self.take_from(mailbox, batch);
        Poll::Ready(true)
    }

    /// Takes events of the next worker in turn, if there are any.
    pub(crate) fn take(&self, batch: &mut VecDeque<Event<In>>) -> bool {
        let Some(mailbox) = self.lock().order.pop_front() else {
            return false;
        };
        self.take_from(mailbox, batch);
        true
    }

    fn take_from(&self, mailbox: Arc<Mailbox<In>>, batch: &mut VecDeque<Event<In>>) {
        match mailbox.take(QUANTUM, batch) {
            Left::More => self.lock().order.push_back(mailbox),
            // Its `Removed` will bring it here again.
            Left::Nothing => {}
            Left::Unused => self.forget_unused(&mailbox),
        }
    }

    /// Nothing more will be told. Returns who is to be woken once no lock is held.
    #[must_use]
    pub(crate) fn close(&self) -> Option<Waker> {
        let mut state = self.lock();
        state.is_closed = true;
        state.reader.take()
    }

    /// Drops what nobody will take any more, now and later.
    pub(crate) fn abandon(&self) {
        self.is_abandoned.store(true, Ordering::SeqCst);
        let mailboxes: Vec<_> = {
            let mut state = self.lock();
            state.order.clear();
            state.mailboxes.values().cloned().collect()
        };
        let discarded: usize = mailboxes.iter().map(|mailbox| mailbox.clear()).sum();
        self.count_discarded(discarded);
        for mailbox in mailboxes {
            self.forget_unused(&mailbox);
        }
    }

    pub(crate) fn count_discarded(&self, messages: usize) {
        self.tally
            .add(|counters| counters.discarded += messages as u64);
    }

    fn is_abandoned(&self) -> bool {
        self.is_abandoned.load(Ordering::SeqCst)
    }

    fn list(&self, mailbox: &Arc<Mailbox<In>>, is_news: bool) -> Option<Waker> {
        let mut reader = None;
        if is_news {
            let mut state = self.lock();
            state.order.push_back(mailbox.clone());
            reader = state.reader.take();
        }
        if self.is_abandoned() {
            self.forget_unused(mailbox);
        }
        reader
    }

    fn forget_unused(&self, mailbox: &Arc<Mailbox<In>>) {
        let mut state = self.lock();
        // Under the lock that `open` takes, so that no entry gets a forgotten one.
        let is_own = state
            .mailboxes
            .get(mailbox.worker())
            .is_some_and(|known| Arc::ptr_eq(known, mailbox));
        if is_own && mailbox.is_unused() {
            state.mailboxes.remove(mailbox.worker());
        }
    }

    fn lock(&self) -> MutexGuard<'_, State<In>> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl<In> fmt::Debug for Inbox<In> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Inbox").finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn inbox() -> Inbox<u8> {
        Inbox::new(4, Arc::default())
    }

    fn known(inbox: &Inbox<u8>) -> usize {
        inbox.lock().mailboxes.len()
    }

    #[test]
    fn a_mailbox_is_forgotten_once_its_last_event_is_taken() {
        let inbox = inbox();
        let mailbox = inbox.open(&"a".into());
        let _ = inbox.tell(&mailbox, vec![(1, EventKind::Removed)]);
        let mut batch = VecDeque::new();
        assert_eq!(known(&inbox), 1);
        assert!(inbox.take(&mut batch));
        assert_eq!((known(&inbox), batch.len()), (0, 1));
    }

    #[test]
    fn a_new_entry_goes_on_in_the_mailbox_that_still_holds_the_old_one() {
        let inbox = inbox();
        let old = inbox.open(&"a".into());
        let _ = inbox.tell(&old, vec![(1, EventKind::Removed)]);
        let new = inbox.open(&"a".into());
        assert!(Arc::ptr_eq(&old, &new));
        assert!(inbox.take(&mut VecDeque::new()));
        assert_eq!(known(&inbox), 1);
    }

    #[test]
    fn an_abandoned_inbox_keeps_no_mailbox_of_a_removed_worker() {
        let inbox = inbox();
        let (a, b) = (inbox.open(&"a".into()), inbox.open(&"b".into()));
        let _ = inbox.tell(&a, vec![(1, EventKind::Removed)]);
        inbox.abandon();
        assert_eq!(known(&inbox), 1);
        let _ = inbox.tell(&b, vec![(2, EventKind::Removed)]);
        assert_eq!(known(&inbox), 0);
    }
}
