//! One connection: two lanes, two ends, and how each end hears of the other's.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use tokio::sync::Notify;
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;

use super::lane::{Found, Lane};
use super::line::Line;
use crate::acceptor::{Ending, Replies};
use crate::clock::Clock;
use crate::connector::{Direction, Failure};
use crate::outbox::Outbox;

/// How a silent peer is found.
#[derive(Clone, Copy, Debug)]
pub(super) struct Keepalive {
    pub(super) interval: Duration,
    pub(super) timeout: Duration,
}

/// One connection of a pool with a worker.
pub(super) struct Wire<Out, In> {
    line: Arc<Line>,
    clock: Clock,
    keepalive: Keepalive,
    // The line's resets before this connection.
    resets: u64,
    to_worker: Mutex<Lane<Outbox<Out>>>,
    to_pool: Mutex<Lane<Replies<In>>>,
    ends: Mutex<Ends>,
    changed: Notify,
    worker_over: CancellationToken,
}

#[derive(Debug, Default)]
struct Ends {
    pool: Option<(Duration, Why)>,
    worker: Option<(Duration, Why)>,
    // The last ping that was answered before packets began to vanish.
    broken: Option<Duration>,
    is_faulted: bool,
}

/// One end of a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Side {
    Pool,
    Worker,
}

/// Why one end of a connection is over.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Why {
    /// The pool has left it.
    Left,
    /// The other end is over, and has said so.
    PeerGone,
    /// The other end was silent for too long.
    Silent,
    Reset,
    Killed,
}

/// Tends a connection, and resets it when it is dropped before both ends are over.
pub(super) struct Watch<Out, In>(pub(super) Arc<Wire<Out, In>>);

// ===== impl Wire =====

impl<Out, In> Wire<Out, In> {
    pub(super) fn new(line: Arc<Line>, keepalive: Keepalive, seed: u64, out: Outbox<Out>) -> Self {
        let clock = Clock::start();
        let mut random = fastrand::Rng::with_seed(seed);
        let mut to_worker = Lane::new(Direction::ToWorker, clock, random.u64(..));
        to_worker.start(out);
        Self {
            resets: line.resets(),
            line,
            clock,
            keepalive,
            to_worker: Mutex::new(to_worker),
            to_pool: Mutex::new(Lane::new(Direction::FromWorker, clock, random.u64(..))),
            ends: Mutex::default(),
            changed: Notify::new(),
            worker_over: CancellationToken::new(),
        }
    }

    /// Begins to carry the worker's messages.
    pub(super) fn start(&self, replies: Replies<In>) {
        let mut lane = lock(&self.to_pool);
        // Under the lane's lock, which the end takes after it is noted.
        if self.end_of(Side::Worker).is_some() {
            drop(lane);
            drop(replies);
            return;
        }
        let reader = lane.start(replies);
        drop(lane);
        wake(reader);
    }

    pub(super) fn end_of(&self, side: Side) -> Option<Why> {
        lock(&self.ends).of(side).map(|(_, why)| why)
    }

    /// Resolves when the worker's end is over.
    pub(super) fn worker_over(&self) -> &CancellationToken {
        &self.worker_over
    }

    /// Returns why the pool's end is over, as soon as it is.
    pub(super) fn poll_over(&self, cx: &Context<'_>) -> Poll<Why> {
        lock(&self.to_pool).listen(cx);
        match self.end_of(Side::Pool) {
            Some(why) => Poll::Ready(why),
            None => Poll::Pending,
        }
    }

    /// Returns the worker's next message; its end may come with a reason.
    pub(super) fn poll_pool(&self, cx: &mut Context<'_>) -> Poll<Result<Option<In>, Failure>> {
        let Poll::Ready(found) = lock(&self.to_pool).poll(&self.line, cx) else {
            return Poll::Pending;
        };
        Poll::Ready(match found {
            Found::Message(Ok(message)) => Ok(Some(message)),
            Found::Message(Err(ending)) => Err(failure(ending)),
            Found::End => Ok(None),
            Found::Over => {
                let why = self.end_of(Side::Pool).unwrap_or(Why::Left);
                Err(Failure::new(why.text(self.keepalive)))
            }
            Found::Reset => {
                self.reset();
                Err(Failure::new(Why::Reset.text(self.keepalive)))
            }
        })
    }

    /// Returns the pool's next message.
    pub(super) fn poll_worker(&self, cx: &mut Context<'_>) -> Poll<Option<Out>> {
        let found = lock(&self.to_worker).poll(&self.line, cx);
        found.map(|found| match found {
            Found::Message(message) => Some(message),
            Found::End | Found::Over => None,
            Found::Reset => {
                self.reset();
                None
            }
        })
    }

    /// Ends one side now; says whether it was not over before.
    pub(super) fn end(&self, side: Side, why: Why) -> bool {
        let is_first_fault = {
            let mut ends = lock(&self.ends);
            if ends.of(side).is_some() {
                return false;
            }
            let end = Some((self.clock.now(), why));
            match side {
                Side::Pool => ends.pool = end,
                Side::Worker => ends.worker = end,
            }
            why.is_fault() && !std::mem::replace(&mut ends.is_faulted, true)
        };
        if is_first_fault {
            let lost = self.under_way();
            self.line.count(|counts| counts.messages_lost += lost);
        }
        // What is dropped runs foreign code: under no lock.
        match side {
            Side::Pool => {
                let stopped = lock(&self.to_worker).stop();
                drop(stopped);
                let reader = lock(&self.to_pool).leave();
                wake(reader);
            }
            Side::Worker => {
                self.worker_over.cancel();
                let stopped = lock(&self.to_pool).stop();
                drop(stopped);
            }
        }
        self.changed.notify_one();
        true
    }

    /// The worker's handler is done: nothing more is taken for it, as a gRPC server says by
    /// a reset of the stream. Nobody hears that over a way that is shut.
    pub(super) fn handler_returned(&self) {
        if !self.line.way(Direction::FromWorker).is_shut() {
            let stopped = lock(&self.to_worker).stop();
            drop(stopped);
        }
    }

    /// Breaks the connection for both ends at once.
    fn reset(&self) {
        let is_hit = self.end(Side::Pool, Why::Reset) | self.end(Side::Worker, Why::Reset);
        if is_hit {
            self.line.count(|counts| counts.resets += 1);
        }
    }

    fn under_way(&self) -> u64 {
        let to_worker = {
            let lane = lock(&self.to_worker);
            lane.flight_len() + lane.source().map_or(0, Outbox::len)
        };
        let lane = lock(&self.to_pool);
        let to_pool = lane.flight_len() + lane.source().map_or(0, Replies::len);
        (to_worker + to_pool) as u64
    }

    /// Does what is due; returns until when nothing is, or `None` when both ends are over.
    fn look(&self, is_killed: bool) -> Option<Duration> {
        if is_killed && self.end(Side::Worker, Why::Killed) {
            self.line.count(|counts| counts.kills += 1);
        }
        if self.line.resets() != self.resets {
            self.reset();
        }
        // A way may be open again.
        let worker = lock(&self.to_worker).take_reader();
        let pool = lock(&self.to_pool).take_reader();
        wake(worker);
        wake(pool);
        let (pool, worker) = {
            let ends = lock(&self.ends);
            (ends.pool, ends.worker)
        };
        let news = match (pool, worker) {
            (Some(_), Some(_)) => return None,
            (Some((at, _)), None) => self.travel(at, Direction::ToWorker, Side::Worker),
            (None, Some((at, _))) => self.travel(at, Direction::FromWorker, Side::Pool),
            (None, None) => Duration::MAX,
        };
        Some(news.min(self.listen_for_silence()))
    }

    /// Tells one side that the other's end is over since then; returns when that is due.
    fn travel(&self, since: Duration, direction: Direction, side: Side) -> Duration {
        let way = self.line.way(direction);
        if way.is_cut {
            return Duration::MAX;
        }
        let arrives = since.saturating_add(*way.delay.end());
        if arrives <= self.clock.now() {
            self.end(side, Why::PeerGone);
        }
        arrives
    }

    /// Ends the sides whose pings were not answered in time; returns when the next is due.
    fn listen_for_silence(&self) -> Duration {
        if self.line.is_whole() {
            lock(&self.ends).broken = None;
            return Duration::MAX;
        }
        let now = self.clock.now();
        let Keepalive { interval, timeout } = self.keepalive;
        let broken = {
            let pings = now.as_nanos() / interval.as_nanos().max(1);
            let last = interval.saturating_mul(u32::try_from(pings).unwrap_or(u32::MAX));
            *lock(&self.ends).broken.get_or_insert(last)
        };
        // Read under no lock that an end takes.
        let pool_heard = lock(&self.to_pool).heard();
        let worker_heard = lock(&self.to_worker).heard();
        let mut due = Duration::MAX;
        for (side, heard) in [(Side::Pool, pool_heard), (Side::Worker, worker_heard)] {
            let silence = interval.saturating_add(timeout);
            let deadline = heard.max(broken).saturating_add(silence);
            if self.end_of(side).is_some() {
                continue;
            }
            if deadline <= now && self.end(side, Why::Silent) {
                self.line.count(|counts| counts.silent_ends += 1);
            } else {
                due = due.min(deadline);
            }
        }
        due
    }
}

// ===== impl Watch =====

impl<Out, In> Watch<Out, In> {
    /// Tends the connection until both ends are over and the worker's work is done,
    /// which a kill ends at once.
    pub(super) async fn run(self, killed: CancellationToken, mut work: JoinHandle<()>) {
        let wire = &self.0;
        loop {
            // Listens before it looks, so that a change in between is seen.
            let changed = wire.line.changed();
            let is_killed = killed.is_cancelled();
            if is_killed {
                work.abort();
            }
            let Some(due) = wire.look(is_killed) else {
                break;
            };
            tokio::select! {
                biased;
                () = killed.cancelled(), if !is_killed => {}
                () = changed => {}
                () = wire.changed.notified() => {}
                () = wire.clock.sleep_until(due) => {}
            }
        }
        // A handler may wind up beyond the end of its session.
        tokio::select! {
            biased;
            () = killed.cancelled() => work.abort(),
            _ = &mut work => {}
        }
    }
}

impl<Out, In> Drop for Watch<Out, In> {
    fn drop(&mut self) {
        self.0.reset();
    }
}

// ===== impl Ends, Why =====

impl Ends {
    fn of(&self, side: Side) -> Option<(Duration, Why)> {
        match side {
            Side::Pool => self.pool,
            Side::Worker => self.worker,
        }
    }
}

impl Why {
    fn is_fault(self) -> bool {
        !matches!(self, Self::Left | Self::PeerGone)
    }

    pub(super) fn text(self, keepalive: Keepalive) -> String {
        match self {
            Self::Left => "the session was ended on this side".to_owned(),
            Self::PeerGone | Self::Killed => "the worker's connection is gone".to_owned(),
            Self::Reset => "the connection was reset".to_owned(),
            Self::Silent => {
                let silence = keepalive.interval.saturating_add(keepalive.timeout);
                format!("keepalive: nothing heard for {} s", silence.as_secs_f64())
            }
        }
    }
}

fn failure(ending: Ending) -> Failure {
    Failure::new(ending.to_string())
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

fn wake(reader: Option<Waker>) {
    if let Some(reader) = reader {
        reader.wake();
    }
}
