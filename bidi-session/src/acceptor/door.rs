//! A worker's door, behind which there is one session at a time.

use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::sync::Notify;
use tokio::time::timeout;

use super::gate::{Gate, Offer, Ticket, Turn};
use super::link::{End, Ending, Link};
use super::refusals::Refusals;
use super::replies::Replies;
use super::tenure::Tenure;
use crate::clock::Clock;
use crate::config::MAX_SCOPE_BYTES;
use crate::handshake::{Hello, Refusal, Welcome};
use crate::worker::WorkerId;

/// How long a handler may go on after its session is over.
pub(super) const HANDLER_GRACE: Duration = Duration::from_secs(5);

/// How long an aborted handler may take to stop, before the newer session begins all
/// the same: a handler that blocks its thread cannot be stopped.
const ABORT_GRACE: Duration = Duration::from_millis(500);

/// Admits one session at a time to a worker, the one of the highest term.
///
/// A stream is refused that is meant for another scope, worker or incarnation, that
/// has a lower term than the highest seen, or, within one term and pool, a generation
/// that is not above the highest seen. An equal term of another pool is refused while a
/// session of that term lives.
///
/// A newer stream ends the older session at once and begins when its handler has
/// returned, or after 5 s, at which the older handler is aborted. So sessions never
/// overlap: messages pass through one at most. It does not bound the *effects* of a
/// handler that goes on by itself; those belong under a fence.
///
/// The highest term is kept in memory. A worker that must refuse a deposed controller
/// after its own restart passes what it has stored as `highest`.
///
/// Clones share the session. Dropping the last one is [`close`](Self::close).
#[derive(Clone)]
pub struct Acceptor {
    owner: Arc<Owner>,
}

/// Closes the door when the last acceptor is dropped; sessions hold the door only.
struct Owner {
    door: Arc<Door>,
}

struct Door {
    worker: WorkerId,
    incarnation: u64,
    clock: Clock,
    state: Mutex<State>,
    // A claim left, or the door was closed.
    changed: Notify,
    refusals: Mutex<Refusals>,
}

struct State {
    gate: Gate,
    holder: Option<(Ticket, Arc<dyn End + Send + Sync>)>,
    // When the last session was ended whose handler is, or was, waited for.
    dismissed: Duration,
    is_closed: bool,
}

/// One claim; given back on drop.
pub(super) struct Place {
    door: Arc<Door>,
    ticket: Ticket,
}

/// A session that was admitted.
pub(crate) struct Admission<Out> {
    /// What the controller is told first.
    pub(crate) welcome: Welcome,
    /// The way to the controller; dropped, it ends the session.
    pub(crate) replies: Replies<Out>,
    /// Runs the handler.
    pub(crate) tenure: Tenure<Out>,
}

/// Why a stream is not admitted.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Unadmitted {
    /// The gate refuses it.
    Refused(Refusal),
    /// The acceptor was closed.
    Closed,
}

// ===== impl Acceptor =====

impl Acceptor {
    /// Accepts streams that are meant for this worker.
    ///
    /// `incarnation` tells this life of the worker from others, such as its start time
    /// or a random number. Terms below `highest` are refused; zero if none was seen.
    ///
    /// Mind their order: an incarnation that is given as `highest` refuses every
    /// controller, as one of a lower term. The controllers then hear of a higher term that
    /// nobody has.
    #[must_use]
    pub fn new(worker: impl Into<WorkerId>, incarnation: u64, highest: u64) -> Self {
        let worker = worker.into();
        let gate = Gate::new(worker.as_str().to_owned(), incarnation, highest);
        let door = Arc::new(Door {
            worker,
            incarnation,
            clock: Clock::start(),
            state: Mutex::new(State {
                gate,
                holder: None,
                dismissed: Duration::ZERO,
                is_closed: false,
            }),
            changed: Notify::new(),
            refusals: Mutex::default(),
        });
        Self {
            owner: Arc::new(Owner { door }),
        }
    }

    /// Sets within what terms count, at most 128 bytes; empty by default, which is a scope
    /// like any other.
    ///
    /// # Panics
    ///
    /// With a longer scope, which no controller can have.
    #[must_use]
    #[track_caller]
    pub fn with_scope(self, scope: impl Into<String>) -> Self {
        let scope = scope.into();
        assert!(
            scope.len() <= MAX_SCOPE_BYTES,
            "the scope has {} bytes, more than {MAX_SCOPE_BYTES}",
            scope.len()
        );
        self.reset(scope, self.highest());
        self
    }

    /// Returns the highest term seen.
    #[must_use]
    pub fn highest(&self) -> u64 {
        self.owner.door.lock().gate.highest()
    }

    /// Ends the session and counts terms within another scope from here on.
    ///
    /// The operator's way out after the store of the terms was rebuilt.
    pub fn reset(&self, scope: impl Into<String>, highest: u64) {
        let door = &self.owner.door;
        let mut state = door.lock();
        state.gate.reset(scope.into(), highest);
        let old = state.dismiss(door.clock.now());
        drop(state);
        end(old, Ending::Reset);
        door.changed.notify_waiters();
    }

    /// Ends the session and refuses all further streams.
    ///
    /// The handler sees the end of its session and may go on for 5 s.
    pub fn close(&self) {
        self.owner.door.close();
    }

    /// Admits a stream, or says why not; waits for the older session's handler.
    pub(crate) async fn admit<Out: Send + 'static>(
        &self,
        hello: &Hello,
    ) -> Result<Admission<Out>, Unadmitted> {
        let door = &self.owner.door;
        let (link, outbox) = Link::new(hello.term, hello.generation);
        let place = match door.clone().admit(hello, link.clone()).await {
            Ok(place) => place,
            Err(why) => {
                if let Unadmitted::Refused(refusal) = &why {
                    door.tell(refusal, Some(hello));
                }
                return Err(why);
            }
        };
        tracing::info!(worker = %door.worker, term = hello.term, generation = hello.generation, "session began");
        Ok(Admission {
            welcome: Welcome {
                worker: door.worker.as_str().to_owned(),
                incarnation: door.incarnation,
            },
            replies: Replies::new(link.clone(), outbox),
            tenure: Tenure::new(link, place),
        })
    }
}

impl Acceptor {
    /// Refuses a stream whose handshake cannot be read.
    pub(crate) fn refuse_malformed(&self, why: String) -> Refusal {
        let refusal = Refusal::Malformed(why);
        self.owner.door.tell(&refusal, None);
        refusal
    }
}

impl fmt::Debug for Acceptor {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Acceptor")
            .field("worker", &self.owner.door.worker)
            .field("incarnation", &self.owner.door.incarnation)
            .field("highest", &self.highest())
            .finish_non_exhaustive()
    }
}

impl Drop for Owner {
    fn drop(&mut self) {
        self.door.close();
    }
}

// ===== impl Door =====

impl Door {
    async fn admit(
        self: Arc<Self>,
        hello: &Hello,
        link: Arc<dyn End + Send + Sync>,
    ) -> Result<Place, Unadmitted> {
        let place = {
            let mut state = self.lock();
            state.check_open()?;
            let (ticket, is_admitted) = match state.gate.offer(hello) {
                Offer::Admitted(ticket) => (ticket, true),
                Offer::Next(ticket) => (ticket, false),
                Offer::Refused(refusal) => return Err(Unadmitted::Refused(refusal)),
            };
            let old = state.dismiss(self.clock.now());
            if is_admitted {
                state.holder = Some((ticket, link.clone()));
            }
            drop(state);
            end(old, Ending::Superseded);
            let place = Place {
                door: self.clone(),
                ticket,
            };
            if is_admitted {
                return Ok(place);
            }
            place
        };
        // Whoever was next before has to learn that it is not.
        self.changed.notify_waiters();
        // Counted from the end of the older session, not from this stream's arrival: else a
        // handler that never stops would outlast any number of short attempts.
        let dismissed = self.lock().dismissed;
        let until = dismissed.saturating_add(HANDLER_GRACE + ABORT_GRACE);
        let patience = until.saturating_sub(self.clock.now());
        let waited = timeout(patience, self.turn(&place, hello, &link)).await;
        if let Ok(answer) = waited {
            answer?;
            return Ok(place);
        }
        tracing::warn!(worker = %self.worker, "a handler did not stop; the newer session begins");
        self.lock().gate.evict(place.ticket);
        self.turn(&place, hello, &link).await?;
        Ok(place)
    }

    /// Waits until the place has its turn.
    async fn turn(
        &self,
        place: &Place,
        hello: &Hello,
        link: &Arc<dyn End + Send + Sync>,
    ) -> Result<(), Unadmitted> {
        loop {
            // Listens before it looks, so that a change in between is seen.
            let changed = self.changed.notified();
            {
                let mut state = self.lock();
                state.check_open()?;
                match state.gate.turn(place.ticket, hello.term) {
                    Turn::Admitted => {
                        state.holder = Some((place.ticket, link.clone()));
                        return Ok(());
                    }
                    Turn::Refused(refusal) => return Err(Unadmitted::Refused(refusal)),
                    Turn::Wait => {}
                }
            }
            changed.await;
        }
    }

    /// Writes that a stream was refused, a line a minute for each kind.
    fn tell(&self, refusal: &Refusal, hello: Option<&Hello>) {
        let now = self.clock.now();
        let refusals = self.refusals.lock();
        let due = refusals
            .unwrap_or_else(PoisonError::into_inner)
            .note(now, refusal);
        let term = hello.map(|hello| hello.term);
        let generation = hello.map(|hello| hello.generation);
        let worker = &self.worker;
        match due {
            Some(count) => {
                tracing::warn!(%worker, term, generation, %refusal, count, "stream refused");
            }
            None => tracing::debug!(%worker, term, generation, %refusal, "stream refused"),
        }
    }

    fn close(&self) {
        let mut state = self.lock();
        state.is_closed = true;
        let old = state.dismiss(self.clock.now());
        drop(state);
        end(old, Ending::Closed);
        self.changed.notify_waiters();
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        // No user code runs under the lock, so it is consistent even if poisoned.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

// ===== impl State =====

impl State {
    fn check_open(&self) -> Result<(), Unadmitted> {
        if self.is_closed {
            return Err(Unadmitted::Closed);
        }
        Ok(())
    }

    /// Takes the session that is to be ended, once no lock is held: what it drops is
    /// foreign code.
    fn dismiss(&mut self, now: Duration) -> Option<Arc<dyn End + Send + Sync>> {
        let (_, link) = self.holder.take()?;
        self.dismissed = now;
        Some(link)
    }
}

fn end(old: Option<Arc<dyn End + Send + Sync>>, why: Ending) {
    if let Some(link) = old {
        link.end(why);
    }
}

// ===== impl Place =====

impl Drop for Place {
    fn drop(&mut self) {
        let mut state = self.door.lock();
        state.gate.leave(self.ticket);
        let is_holder = |holder: &(Ticket, _)| holder.0 == self.ticket;
        if state.holder.as_ref().is_some_and(is_holder) {
            state.holder = None;
        }
        drop(state);
        self.door.changed.notify_waiters();
    }
}
