//! A worker's door: the handshake, and one session at a time behind it.

use std::fmt;
use std::future::Future;
use std::pin::pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use ::tonic::{Request, Response, Status, Streaming};
use tokio::sync::Notify;
use tokio::time::timeout;

use super::link::{End, Ending, Inbound, Link};
use super::metadata;
use super::session::{Session, SessionStream};
use crate::acceptor::{Gate, Offer, Ticket, Turn};
use crate::handshake::{Hello, Refusal, Welcome};
use crate::worker::WorkerId;

/// How long a handler may go on after its session is over.
const HANDLER_GRACE: Duration = Duration::from_secs(5);

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
///
/// A controller that vanished without a word is noticed by the server's keepalive only:
///
/// ```
/// use bidi_session::tonic::{KEEPALIVE_INTERVAL, KEEPALIVE_TIMEOUT};
/// let server = tonic::transport::Server::builder()
///     .http2_keepalive_interval(Some(KEEPALIVE_INTERVAL))
///     .http2_keepalive_timeout(Some(KEEPALIVE_TIMEOUT));
/// ```
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
    state: Mutex<State>,
    // A claim left, or the door was closed.
    changed: Notify,
}

struct State {
    gate: Gate,
    holder: Option<(Ticket, Arc<dyn End + Send + Sync>)>,
    is_closed: bool,
}

/// One claim; given back on drop.
struct Place {
    door: Arc<Door>,
    ticket: Ticket,
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
            state: Mutex::new(State {
                gate,
                holder: None,
                is_closed: false,
            }),
            changed: Notify::new(),
        });
        Self {
            owner: Arc::new(Owner { door }),
        }
    }

    /// Sets within what terms count; empty by default, which is a scope like any other.
    #[must_use]
    pub fn with_scope(self, scope: impl Into<String>) -> Self {
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
        let mut state = self.owner.door.lock();
        state.gate.reset(scope.into(), highest);
        state.end_holder(Ending::Superseded);
        drop(state);
        self.owner.door.changed.notify_waiters();
    }

    /// Ends the session and refuses all further streams.
    ///
    /// The handler sees the end of its session and may go on for 5 s.
    pub fn close(&self) {
        self.owner.door.close();
    }

    /// Answers a call: refuses it, or runs `handler` with its session.
    ///
    /// Call it first in the service's method and return what it returns: the response
    /// goes out before a message is read, which the controller waits for. The handler
    /// runs on a task of its own. When the session is over it has 5 s to return, then it
    /// is dropped. A handler that returns ends the stream cleanly after its queued
    /// messages; any other end reaches the controller as an error.
    ///
    /// # Errors
    ///
    /// A status that says why the stream is refused, which the pool understands.
    ///
    /// # Cancel safety
    ///
    /// Cancel safe: a dropped call gives its place back. The end of the older session,
    /// and a higher term, stay.
    pub async fn serve<In, Out, F, Fut>(
        &self,
        request: Request<Streaming<In>>,
        handler: F,
    ) -> Result<Response<SessionStream<Out>>, Status>
    where
        In: Send + 'static,
        Out: Send + 'static,
        F: FnOnce(Session<In, Out>) -> Fut + Send + 'static,
        Fut: Future<Output = ()> + Send + 'static,
    {
        let door = &self.owner.door;
        let hello = Hello::from_fields(metadata::read(request.metadata()))
            .map_err(|why| metadata::refused(&Refusal::Malformed(why)))?;
        let (link, outbox) = Link::new(hello.term, hello.generation);
        let place = door.clone().admit(&hello, link.clone()).await?;
        let welcome = Welcome {
            worker: door.worker.as_str().to_owned(),
            incarnation: door.incarnation,
        };
        tracing::info!(worker = %door.worker, term = hello.term, generation = hello.generation, "session began");
        // The stream comes before the task: dropped with the response, it ends the session.
        let mut response = Response::new(SessionStream::new(link.clone(), outbox));
        metadata::write(welcome.to_fields(), response.metadata_mut());
        let tenure = Tenure {
            link,
            _place: place,
        };
        let inbound = Arc::new(Inbound::new(request.into_inner()));
        tokio::spawn(run(tenure, inbound, handler));
        Ok(response)
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
    ) -> Result<Place, Status> {
        let place = {
            let mut state = self.lock();
            state.check_open()?;
            let (ticket, is_admitted) = match state.gate.offer(hello) {
                Offer::Admitted(ticket) => (ticket, true),
                Offer::Next(ticket) => (ticket, false),
                Offer::Refused(refusal) => return Err(metadata::refused(&refusal)),
            };
            state.end_holder(Ending::Superseded);
            if is_admitted {
                state.holder = Some((ticket, link.clone()));
            }
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
        let waited = timeout(HANDLER_GRACE + ABORT_GRACE, self.turn(&place, hello, &link)).await;
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
    ) -> Result<(), Status> {
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
                    Turn::Refused(refusal) => return Err(metadata::refused(&refusal)),
                    Turn::Wait => {}
                }
            }
            changed.await;
        }
    }

    fn close(&self) {
        let mut state = self.lock();
        state.is_closed = true;
        state.end_holder(Ending::Closed);
        drop(state);
        self.changed.notify_waiters();
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        // No user code runs under the lock, so it is consistent even if poisoned.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

// ===== impl State =====

impl State {
    fn check_open(&self) -> Result<(), Status> {
        if self.is_closed {
            return Err(Status::unavailable("the worker's acceptor was closed"));
        }
        Ok(())
    }

    fn end_holder(&mut self, why: Ending) {
        if let Some((_, link)) = self.holder.take() {
            link.end(why);
        }
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

/// One session's time; its end is an abnormal one unless another came first.
struct Tenure<Out> {
    // Ended before the place is free.
    link: Arc<Link<Out>>,
    _place: Place,
}

impl<Out> Drop for Tenure<Out> {
    fn drop(&mut self) {
        self.link.end(Ending::HandlerGone);
    }
}

/// Cuts the request stream when the handler is gone, however it went.
struct Cut<In>(Arc<Inbound<In>>);

impl<In> Drop for Cut<In> {
    fn drop(&mut self) {
        self.0.cut();
    }
}

async fn run<In, Out, F, Fut>(tenure: Tenure<Out>, inbound: Arc<Inbound<In>>, handler: F)
where
    F: FnOnce(Session<In, Out>) -> Fut,
    Fut: Future<Output = ()>,
{
    let link = &tenure.link;
    let cut = Cut(inbound.clone());
    // Declared last, so that the handler is dropped before its place is free.
    let mut handler = pin!(handler(Session::new(link.clone(), inbound)));
    let has_returned = tokio::select! {
        biased;
        () = &mut handler => true,
        () = link.over().cancelled() => false,
    };
    if has_returned {
        link.end(Ending::Returned);
        return;
    }
    cut.0.cut();
    if timeout(HANDLER_GRACE, handler).await.is_err() {
        tracing::warn!(
            term = link.term,
            generation = link.generation,
            "handler dropped 5 s after its session"
        );
    }
}
