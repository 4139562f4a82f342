//! Reads one session: answers to their rounds, everything else to the owner.

use std::pin::{Pin, pin};
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use futures_core::Stream;

use crate::connector::{Connector, Failure};
use crate::core::peer::Input;
use crate::core::rounds::Answerer;
use crate::event::DisconnectReason;
use crate::outbox::OutboxSender;
use crate::pool::shared::Shared;
use crate::pool::slot::{Slot, deaf};

/// A session whose request stream is gone is over after so long: what its worker still
/// says, and why it ended, are worth hearing.
const DEAF_GRACE: Duration = Duration::from_secs(1);

/// Messages that are read before they are handed over.
const BATCH: usize = 64;

type Inbound<In> = Pin<Box<dyn Stream<Item = Result<In, Failure>> + Send>>;

/// The messages of one session on their way to whom they are for.
struct Reader<'a, C: Connector> {
    pool: &'a Shared<C>,
    slot: &'a Slot<C>,
    session: Answerer,
    inbound: Inbound<C::In>,
    // Messages that may be queued before the mailbox has to be asked again: others only
    // take from it, so this is never too much.
    room: usize,
    // Empty but while a batch is read.
    answers: Vec<(u64, C::In)>,
    others: Vec<C::In>,
    // Its state machine knows that it was of use.
    has_spoken: bool,
    // Its messages do not count any more.
    is_over: bool,
}

/// What reading came to.
enum Read {
    /// There may be more to read.
    More,
    /// No message finds room with the owner.
    Full,
    /// The stream is over.
    End(DisconnectReason),
    /// The session was over before.
    Over,
}

/// Reads a session until it is over.
pub(crate) async fn read<C: Connector>(
    pool: &Shared<C>,
    slot: &Slot<C>,
    generation: u64,
    inbound: Inbound<C::In>,
    sender: &OutboxSender<C::Out>,
) {
    let mut reader = Reader {
        pool,
        slot,
        session: Answerer::new(slot.id().clone(), generation),
        inbound,
        room: 0,
        answers: Vec::new(),
        others: Vec::new(),
        has_spoken: false,
        is_over: false,
    };
    let mut reason = reader.read_open(sender).await;
    if reason.is_none() {
        reason = reader.outlast().await;
    }
    let Some(reason) = reason else { return };
    let input = Input::Ended { generation, reason };
    let aftermath = slot.step(&pool.inbox, pool.clock.now(), input);
    pool.settle(slot, aftermath);
}

impl<C: Connector> Drop for Reader<'_, C> {
    /// Hands on what was read before foreign code panicked.
    fn drop(&mut self) {
        self.hand_over();
    }
}

// ===== impl Reader =====

impl<C: Connector> Reader<'_, C> {
    /// Reads until the stream ends; `None` where the request stream has ended before, as it
    /// does with a session that is over.
    ///
    /// So that is all there is to wait for, and it is asked only where it may have happened:
    /// this runs for each message.
    async fn read_open<Out>(&mut self, sender: &OutboxSender<Out>) -> Option<DisconnectReason> {
        let mut closed = pin!(sender.closed());
        let mut told: Option<Waker> = None;
        loop {
            let read = std::future::poll_fn(|cx| {
                let is_told = told.as_ref().is_some_and(|told| told.will_wake(cx.waker()));
                if !is_told || sender.is_closed() {
                    told = Some(cx.waker().clone());
                    if closed.as_mut().poll(cx).is_ready() {
                        return Poll::Ready(Read::Over);
                    }
                }
                self.poll_read(cx)
            });
            match read.await {
                // A flood of answers would never find its stream empty.
                Read::More => tokio::task::coop::consume_budget().await,
                Read::Full => tokio::select! {
                    biased;
                    () = closed.as_mut() => return None,
                    () = self.slot.mailbox().has_room() => {}
                },
                Read::End(reason) => return Some(reason),
                Read::Over => return None,
            }
        }
    }

    /// Hears what a worker still says whose request stream is gone; `None` where the session
    /// was ended by somebody else.
    async fn outlast(&mut self) -> Option<DisconnectReason> {
        let generation = self.session.generation();
        let slot = self.slot;
        let mut over = pin!(slot.over(generation));
        let mut grace = pin!(tokio::time::sleep(DEAF_GRACE));
        loop {
            let read = tokio::select! {
                biased;
                () = over.as_mut() => return None,
                () = grace.as_mut() => return Some(deaf()),
                read = std::future::poll_fn(|cx| self.poll_read(cx)) => read,
            };
            match read {
                Read::More => tokio::task::coop::consume_budget().await,
                // The transport is gone, and what it has received lies in memory already:
                // it is taken over to reach the end, which an owner that takes nothing
                // must not hide.
                Read::Full => {
                    self.room = slot.mailbox().room_beyond(generation);
                    if self.room == 0 {
                        return Some(deaf());
                    }
                }
                Read::End(reason) => return Some(reason),
                Read::Over => return None,
            }
        }
    }

    /// Hands on what lies ready, at most a batch; pending when nothing is left.
    ///
    /// Messages are handed on before this is pending, so that the stream is polled once
    /// more than it has messages, not twice.
    fn poll_read(&mut self, cx: &mut Context<'_>) -> Poll<Read> {
        if self.room == 0 {
            self.room = self.slot.mailbox().room();
            if self.room == 0 {
                return Poll::Ready(Read::Full);
            }
        }
        let limit = self.room.min(BATCH);
        let mut next = Poll::Ready(Read::More);
        while self.answers.len() + self.others.len() < limit {
            match self.inbound.as_mut().poll_next(cx) {
                Poll::Ready(Some(Ok(message))) => match self.pool.connector.answers(&message) {
                    Some(id) => self.answers.push((id, message)),
                    None => self.others.push(message),
                },
                Poll::Ready(Some(Err(failure))) => {
                    next = Poll::Ready(Read::End(DisconnectReason::Failed(failure)));
                    break;
                }
                Poll::Ready(None) => {
                    next = Poll::Ready(Read::End(DisconnectReason::Closed));
                    break;
                }
                Poll::Pending => {
                    next = Poll::Pending;
                    break;
                }
            }
        }
        self.hand_over();
        if self.is_over {
            return Poll::Ready(Read::Over);
        }
        next
    }

    /// Hands answers to their rounds and everything else to the owner.
    fn hand_over(&mut self) {
        let count = self.answers.len() + self.others.len();
        if count == 0 {
            return;
        }
        self.room -= self.others.len();
        let (pool, slot, generation) = (self.pool, self.slot, self.session.generation());
        // Answers need no more: their rounds know themselves whose session is over.
        let is_heard = self.has_spoken && self.others.is_empty()
            || slot.hear(&pool.inbox, generation, count, &mut self.others);
        if is_heard {
            self.has_spoken = true;
            if !self.answers.is_empty() {
                let answers = self.answers.drain(..);
                pool.board.answer(&mut self.session, answers);
            }
        } else {
            self.is_over = true;
            pool.count_stale_inputs(slot.take_stale_inputs());
        }
        self.answers.clear();
        self.others.clear();
    }
}
