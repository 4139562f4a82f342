//! Reads one session: answers to their rounds, everything else to the owner.

use std::pin::{Pin, pin};
use std::task::{Context, Poll};
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
}

/// What reading came to.
enum Read {
    /// There may be more to read.
    More,
    /// No message finds room with the owner.
    Full,
    /// The stream is over.
    End(DisconnectReason),
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
    };
    let mut over = pin!(slot.over(generation));
    let mut deafness = pin!(deafness(sender));
    loop {
        let read = tokio::select! {
            biased;
            () = over.as_mut() => return,
            () = deafness.as_mut() => Read::End(deaf()),
            read = std::future::poll_fn(|cx| reader.poll_read(cx)) => read,
        };
        let end = match read {
            // A flood of answers would never find its stream empty.
            Read::More => {
                tokio::task::coop::consume_budget().await;
                continue;
            }
            Read::Full => tokio::select! {
                biased;
                () = over.as_mut() => return,
                () = slot.mailbox().has_room() => continue,
                // The transport is gone, and what it has received lies in memory already:
                // it is taken over to reach the end, which an owner that takes nothing
                // must not hide.
                () = sender.closed() => {
                    reader.room = slot.mailbox().room_beyond(generation);
                    if reader.room > 0 {
                        continue;
                    }
                    deaf()
                }
            },
            Read::End(reason) => reason,
        };
        let input = Input::Ended {
            generation,
            reason: end,
        };
        let aftermath = slot.step(&pool.inbox, pool.clock.now(), input);
        pool.settle(slot, aftermath);
        return;
    }
}

async fn deafness<Out>(sender: &OutboxSender<Out>) {
    sender.closed().await;
    tokio::time::sleep(DEAF_GRACE).await;
}

impl<C: Connector> Drop for Reader<'_, C> {
    /// Hands on what was read before foreign code panicked.
    fn drop(&mut self) {
        self.hand_over();
    }
}

// ===== impl Reader =====

impl<C: Connector> Reader<'_, C> {
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
        if slot.hear(&pool.inbox, generation, count, &mut self.others) {
            if !self.answers.is_empty() {
                let answers = self.answers.drain(..);
                pool.board.answer(&mut self.session, answers);
            }
        } else {
            pool.count_stale_inputs(slot.take_stale_inputs());
        }
        self.answers.clear();
        self.others.clear();
    }
}
