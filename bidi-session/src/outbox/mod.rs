//! The one queue between `send` and the wire.
//!
//! An outbox belongs to one session and is its request stream. It is bounded by
//! count and by bytes, and it ends on a close flag, not when its senders are gone:
//! what is still queued then is dropped, so that nothing of an ended session
//! reaches the wire.

mod queue;

use std::collections::VecDeque;
use std::fmt;
use std::pin::Pin;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, Waker};

use futures_core::Stream;
use tokio::sync::Notify;

use self::queue::Queue;
use crate::meters::OutboxMeter;

pub(crate) use self::queue::Room;

/// How many messages of a batch may be on their way before their room is given back; a
/// sender that waits is woken once for so many.
const RELEASE_EVERY: usize = 64;

/// Messages of one session on their way to the wire: the request stream.
///
/// Ends when the session ends, whatever is still queued.
pub struct Outbox<Out> {
    shared: Arc<Shared<Out>>,
    batch: VecDeque<(Out, usize)>,
    // Room of messages that left the batch and is not given back yet.
    spent: Room,
}

/// The end that queues; clones share the queue.
pub(crate) struct OutboxSender<Out> {
    shared: Arc<Shared<Out>>,
}

/// Room for one message, given back on drop.
pub(crate) struct Reservation<'a, Out> {
    shared: &'a Shared<Out>,
    bytes: usize,
    is_used: bool,
}

/// Why a message was not queued.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Refused {
    /// There is no room now.
    Full,
    /// There never is room for a message of this size.
    TooLarge,
    /// The session is over.
    Closed,
}

struct Shared<Out> {
    limit: Room,
    meter: OutboxMeter,
    queue: Mutex<Queue<Out>>,
    // A copy of the queue's end that is read without the lock.
    is_closed: AtomicBool,
    has_room: Notify,
    has_ended: Notify,
}

/// Returns both ends of a new outbox that holds at most `limit`.
#[cfg(any(feature = "tonic", feature = "test-util", test))]
pub(crate) fn outbox<Out>(limit: Room) -> (OutboxSender<Out>, Outbox<Out>) {
    metered(limit, OutboxMeter::default())
}

/// Returns both ends of a new outbox whose bytes are metered.
pub(crate) fn metered<Out>(limit: Room, meter: OutboxMeter) -> (OutboxSender<Out>, Outbox<Out>) {
    let shared = Arc::new(Shared {
        limit,
        meter,
        queue: Mutex::new(Queue::new()),
        is_closed: AtomicBool::new(false),
        has_room: Notify::new(),
        has_ended: Notify::new(),
    });
    let sender = OutboxSender {
        shared: shared.clone(),
    };
    let outbox = Outbox {
        shared,
        batch: VecDeque::new(),
        spent: Room::default(),
    };
    (sender, outbox)
}

// ===== impl Outbox =====

impl<Out> Outbox<Out> {
    /// Returns how many messages are queued.
    #[cfg(feature = "test-util")]
    pub(crate) fn len(&self) -> usize {
        self.batch.len() + self.shared.lock().items.len()
    }

    fn take(&mut self) -> Option<Out> {
        let (item, bytes) = self.batch.pop_front()?;
        self.spent.count += 1;
        self.spent.bytes += bytes;
        if self.batch.is_empty() || self.shared.is_much(self.spent) {
            let spent = std::mem::take(&mut self.spent);
            self.shared.release(spent);
        }
        Some(item)
    }
}

impl<Out> Stream for Outbox<Out> {
    type Item = Out;

    fn poll_next(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Out>> {
        let this = self.get_mut();
        if this.shared.is_closed.load(Ordering::Acquire) {
            this.batch.clear();
            return Poll::Ready(None);
        }
        if !this.batch.is_empty() {
            return Poll::Ready(this.take());
        }
        let mut queue = this.shared.lock();
        if queue.is_closed {
            return Poll::Ready(None);
        }
        if queue.items.is_empty() {
            if queue.is_finished {
                return Poll::Ready(None);
            }
            queue.listen(cx.waker());
            return Poll::Pending;
        }
        if queue.items.len() > 1 {
            std::mem::swap(&mut queue.items, &mut this.batch);
            drop(queue);
            return Poll::Ready(this.take());
        }
        // A single message gives its room back under this lock, not under another, and
        // leaves its place to the next one: another place would lie in cold memory.
        let single = queue.items.pop_front();
        queue.items.clear();
        let bytes = single.as_ref().map_or(0, |(_, bytes)| *bytes);
        let is_awaited = queue.release(Room { count: 1, bytes });
        drop(queue);
        this.shared.meter.sub(bytes);
        if is_awaited {
            this.shared.has_room.notify_waiters();
        }
        Poll::Ready(single.map(|(item, _)| item))
    }
}

// Messages are moved, never pinned.
impl<Out> Unpin for Outbox<Out> {}

impl<Out> Drop for Outbox<Out> {
    fn drop(&mut self) {
        self.shared.close();
    }
}

impl<Out> fmt::Debug for Outbox<Out> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Outbox").finish_non_exhaustive()
    }
}

// ===== impl OutboxSender =====

impl<Out> OutboxSender<Out> {
    /// Queues a message, or gives it back.
    pub(crate) fn try_push(&self, item: Out, bytes: usize) -> Result<(), (Refused, Out)> {
        self.enqueue(item, bytes, false)
    }

    fn enqueue(&self, item: Out, bytes: usize, waits: bool) -> Result<(), (Refused, Out)> {
        let mut queue = self.shared.lock();
        if let Err(why) = queue.take_room(self.shared.limit, bytes) {
            queue.is_awaited |= waits;
            return Err((why, item));
        }
        queue.items.push_back((item, bytes));
        let reader = queue.reader.take();
        drop(queue);
        self.shared.meter.add(bytes);
        wake(reader);
        Ok(())
    }

    /// Queues a message as soon as there is room, or gives it back.
    pub(crate) async fn push(&self, item: Out, bytes: usize) -> Result<(), (Refused, Out)> {
        let mut item = item;
        loop {
            // Listens before it looks, so that room given back in between is seen.
            let has_room = self.shared.has_room.notified();
            match self.enqueue(item, bytes, true) {
                Err((Refused::Full, back)) => item = back,
                done => return done,
            }
            has_room.await;
        }
    }

    /// Takes room for a message without queueing it yet.
    pub(crate) fn try_reserve(&self, bytes: usize) -> Result<Reservation<'_, Out>, Refused> {
        self.shared.lock().take_room(self.shared.limit, bytes)?;
        self.shared.meter.add(bytes);
        Ok(Reservation {
            shared: &self.shared,
            bytes,
            is_used: false,
        })
    }

    /// Waits until the request stream has ended, or was dropped.
    pub(crate) async fn closed(&self) {
        let has_ended = self.shared.has_ended.notified();
        if !self.shared.is_closed.load(Ordering::Acquire) {
            has_ended.await;
        }
    }

    /// Says whether the request stream has ended, or was dropped.
    pub(crate) fn is_closed(&self) -> bool {
        self.shared.is_closed.load(Ordering::Acquire)
    }

    /// Ends the request stream; what is queued is dropped. May be repeated.
    pub(crate) fn close(&self) {
        self.shared.close();
    }

    /// Takes no further message; the stream ends after what is queued.
    #[cfg(any(feature = "tonic", feature = "test-util"))]
    pub(crate) fn finish(&self) {
        let mut queue = self.shared.lock();
        queue.is_finished = true;
        let reader = queue.reader.take();
        drop(queue);
        wake(reader);
        self.shared.has_room.notify_waiters();
    }
}

impl<Out> Clone for OutboxSender<Out> {
    fn clone(&self) -> Self {
        Self {
            shared: self.shared.clone(),
        }
    }
}

impl<Out> fmt::Debug for OutboxSender<Out> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("OutboxSender").finish_non_exhaustive()
    }
}

// ===== impl Reservation =====

impl<Out> Reservation<'_, Out> {
    /// Queues the message; says whether the session was still there.
    pub(crate) fn push(mut self, item: Out) -> bool {
        self.is_used = true;
        let mut queue = self.shared.lock();
        if queue.is_closed {
            return false;
        }
        queue.items.push_back((item, self.bytes));
        let reader = queue.reader.take();
        drop(queue);
        wake(reader);
        true
    }
}

impl<Out> Drop for Reservation<'_, Out> {
    fn drop(&mut self) {
        if !self.is_used {
            self.shared.release(Room {
                count: 1,
                bytes: self.bytes,
            });
        }
    }
}

// ===== impl Shared =====

impl<Out> Shared<Out> {
    fn lock(&self) -> MutexGuard<'_, Queue<Out>> {
        // No user code runs under the lock, so it is consistent even if poisoned.
        self.queue.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Whether so much room is worth being given back before the whole batch is gone: a
    /// small outbox must not look full for long that is nearly empty.
    fn is_much(&self, spent: Room) -> bool {
        spent.count >= RELEASE_EVERY.min(self.limit.count / 4)
            || spent.bytes >= self.limit.bytes / 4
    }

    fn release(&self, room: Room) {
        let mut queue = self.lock();
        if queue.is_closed {
            // All of it was given back then.
            return;
        }
        let is_awaited = queue.release(room);
        drop(queue);
        self.meter.sub(room.bytes);
        if is_awaited {
            self.has_room.notify_waiters();
        }
    }

    fn close(&self) {
        let mut queue = self.lock();
        self.is_closed.store(true, Ordering::Release);
        queue.is_closed = true;
        let reader = queue.reader.take();
        let dropped = std::mem::take(&mut queue.items);
        let used = std::mem::take(&mut queue.used);
        drop(queue);
        self.meter.sub(used.bytes);
        // Outside of the lock: dropping a message is user code.
        drop(dropped);
        wake(reader);
        self.has_room.notify_waiters();
        self.has_ended.notify_waiters();
    }
}

fn wake(reader: Option<Waker>) {
    if let Some(reader) = reader {
        reader.wake();
    }
}

#[cfg(test)]
mod tests;
