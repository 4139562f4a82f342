//! One direction of a connection: its messages, and those that are on their way.

use std::collections::VecDeque;
use std::pin::Pin;
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use futures_core::Stream;

use super::line::Line;
use crate::clock::Clock;
use crate::connector::Direction;

/// Messages that a delay may have under way, at most.
const MAX_FLIGHT: usize = 64;

type Timer = Pin<Box<dyn Future<Output = ()> + Send>>;

/// One direction of a connection.
pub(super) struct Lane<S: Stream> {
    direction: Direction,
    clock: Clock,
    random: fastrand::Rng,
    // Dropped when its own end of the connection is over.
    source: Option<S>,
    // What was sent and arrives later, with its time.
    flight: VecDeque<(Duration, S::Item)>,
    is_ended: bool,
    // The reader's own end of the connection is over.
    is_left: bool,
    timer: Option<(Duration, Timer)>,
    reader: Option<Waker>,
    // When the reader got a message, while there were faults.
    heard: Duration,
}

/// What a reader finds.
pub(super) enum Found<T> {
    Message(T),
    End,
    /// The reader's own end of the connection is over.
    Over,
    /// This message resets the connection.
    Reset,
}

// ===== impl Lane =====

impl<S: Stream + Unpin> Lane<S> {
    pub(super) fn new(direction: Direction, clock: Clock, seed: u64) -> Self {
        Self {
            direction,
            clock,
            random: fastrand::Rng::with_seed(seed),
            source: None,
            flight: VecDeque::new(),
            is_ended: false,
            is_left: false,
            timer: None,
            reader: None,
            heard: Duration::ZERO,
        }
    }

    /// Begins to take messages from here.
    pub(super) fn start(&mut self, source: S) -> Option<Waker> {
        self.source = Some(source);
        self.reader.take()
    }

    /// Takes no more; returns what is to be dropped under no lock.
    pub(super) fn stop(&mut self) -> (Option<S>, VecDeque<(Duration, S::Item)>) {
        (self.source.take(), std::mem::take(&mut self.flight))
    }

    pub(super) fn source(&self) -> Option<&S> {
        self.source.as_ref()
    }

    /// Returns how many messages are under way by a delay.
    pub(super) fn flight_len(&self) -> usize {
        self.flight.len()
    }

    pub(super) fn heard(&self) -> Duration {
        self.heard
    }

    /// Returns who waits for messages, to be woken.
    pub(super) fn take_reader(&mut self) -> Option<Waker> {
        self.reader.take()
    }

    /// Gives the reader nothing but its end from here on; returns who waits.
    pub(super) fn leave(&mut self) -> Option<Waker> {
        self.is_left = true;
        self.reader.take()
    }

    /// Notes who waits; whatever concerns the reader wakes it.
    pub(super) fn listen(&mut self, cx: &Context<'_>) {
        match &mut self.reader {
            Some(reader) => reader.clone_from(cx.waker()),
            None => self.reader = Some(cx.waker().clone()),
        }
    }

    /// Returns the next message as soon as it arrives.
    pub(super) fn poll(&mut self, line: &Line, cx: &mut Context<'_>) -> Poll<Found<S::Item>> {
        self.listen(cx);
        if self.is_left {
            return Poll::Ready(Found::Over);
        }
        if !line.is_faulty() && self.flight.is_empty() && !self.is_ended {
            return match &mut self.source {
                Some(source) => Pin::new(source).poll_next(cx).map(|next| match next {
                    Some(message) => Found::Message(message),
                    None => Found::End,
                }),
                None => Poll::Pending,
            };
        }
        self.poll_faulty(line, cx)
    }

    fn poll_faulty(&mut self, line: &Line, cx: &mut Context<'_>) -> Poll<Found<S::Item>> {
        let way = line.way(self.direction);
        if way.is_shut() {
            line.count(|counts| counts.reads_held += 1);
            return Poll::Pending;
        }
        let now = self.clock.now();
        while self.flight.len() < MAX_FLIGHT && !self.is_ended {
            let Some(source) = &mut self.source else {
                break;
            };
            match Pin::new(source).poll_next(cx) {
                Poll::Ready(Some(message)) => {
                    let delay = way.delay(&mut self.random);
                    if !delay.is_zero() {
                        line.count(|counts| counts.messages_delayed += 1);
                    }
                    // In order, whatever the delays are.
                    let earliest = self.flight.back().map_or(now, |(due, _)| *due);
                    self.flight
                        .push_back((now.saturating_add(delay).max(earliest), message));
                }
                Poll::Ready(None) => self.is_ended = true,
                Poll::Pending => break,
            }
        }
        let Some((due, _)) = self.flight.front() else {
            return if self.is_ended {
                Poll::Ready(Found::End)
            } else {
                Poll::Pending
            };
        };
        let due = *due;
        if due > now && self.poll_timer(due, cx).is_pending() {
            return Poll::Pending;
        }
        self.timer = None;
        self.heard = now;
        match self.flight.pop_front() {
            Some((_, message)) if line.pass(self.direction) => Poll::Ready(Found::Message(message)),
            _ => {
                line.count(|counts| counts.messages_lost += 1);
                Poll::Ready(Found::Reset)
            }
        }
    }

    fn poll_timer(&mut self, due: Duration, cx: &mut Context<'_>) -> Poll<()> {
        if self.timer.as_ref().is_none_or(|(at, _)| *at != due) {
            let clock = self.clock;
            self.timer = Some((due, Box::pin(async move { clock.sleep_until(due).await })));
        }
        match &mut self.timer {
            Some((_, timer)) => timer.as_mut().poll(cx),
            None => Poll::Ready(()),
        }
    }
}
