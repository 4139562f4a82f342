//! One worker's entry: its state machine and what its present session holds.
//!
//! The state machine is stepped, and what it tells is queued, under one lock: a
//! worker never looks up before `Connected` is queued, nor after `Disconnected` is.

use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::sync::Notify;

use crate::connector::{Connector, Failure};
use crate::core::peer::{Input, Peer, Stage, Told};
use crate::event::{DisconnectReason, EventKind};
use crate::meters::Step;
use crate::outbox::OutboxSender;
use crate::policy::BackoffPolicy;
use crate::pool::aftermath::{Aftermath, wake};
use crate::pool::inbox::Inbox;
use crate::pool::log::Log;
use crate::pool::mailbox::Mailbox;
use crate::pool::tally::Tally;
use crate::state::WorkerState;
use crate::worker::WorkerId;

/// Ends a connection at once.
pub(crate) type Kill = Box<dyn FnOnce() + Send>;

/// A worker's entry in the pool.
pub(crate) struct Slot<C: Connector> {
    id: WorkerId,
    log: Log,
    tally: Arc<Tally>,
    policy: Option<BackoffPolicy>,
    mailbox: Arc<Mailbox<C::In>>,
    link: Mutex<Link<C>>,
    /// Wakes the worker's task.
    wake: Notify,
    /// Wakes those who wait for the worker.
    changed: Notify,
}

struct Link<C: Connector> {
    peer: Peer,
    // Replaced as a whole: whoever has looked at it knows whether it is still the same.
    place: Arc<Place<C::Target>>,
    outbox: Option<OutboxSender<C::Out>>,
    kill: Option<Kill>,
    // The last session that ended.
    ended: Option<(u64, DisconnectReason)>,
    // When it ended, until the next one begins.
    lost_at: Option<Duration>,
}

/// Where a worker is, and who is expected there.
#[derive(Clone, Debug)]
pub(crate) struct Place<T> {
    pub(crate) target: T,
    pub(crate) incarnation: Option<u64>,
}

// ===== impl Slot =====

impl<C: Connector> Slot<C> {
    pub(crate) fn new(
        id: WorkerId,
        place: Place<C::Target>,
        peer: Peer,
        mailbox: Arc<Mailbox<C::In>>,
        tally: Arc<Tally>,
        policy: Option<BackoffPolicy>,
    ) -> Self {
        tally.meters.joined();
        Self {
            tally,
            policy,
            log: Log::new(id.clone()),
            id,
            mailbox,
            link: Mutex::new(Link {
                peer,
                place: Arc::new(place),
                outbox: None,
                kill: None,
                ended: None,
                lost_at: None,
            }),
            wake: Notify::new(),
            changed: Notify::new(),
        }
    }

    pub(crate) fn id(&self) -> &WorkerId {
        &self.id
    }

    pub(crate) fn log(&self) -> &Log {
        &self.log
    }

    pub(crate) fn mailbox(&self) -> &Mailbox<C::In> {
        &self.mailbox
    }

    pub(crate) fn place(&self) -> Arc<Place<C::Target>> {
        self.lock().place.clone()
    }

    pub(crate) fn stage(&self) -> Stage {
        self.lock().peer.stage()
    }

    pub(crate) fn state(&self, now: Duration) -> WorkerState {
        self.lock().peer.state(now)
    }

    /// Returns the session's generation and outbox, while there is a session.
    pub(crate) fn session(&self) -> Option<(u64, OutboxSender<C::Out>)> {
        let link = self.lock();
        let generation = link.peer.session()?;
        Some((generation, link.outbox.clone()?))
    }

    /// Returns the generation of the session, while there is one.
    pub(crate) fn generation(&self) -> Option<u64> {
        self.lock().peer.session()
    }

    /// Returns why a session ended whose outbox is closed.
    pub(crate) fn end_of(&self, generation: u64) -> DisconnectReason {
        match &self.lock().ended {
            Some((ended, reason)) if *ended == generation => reason.clone(),
            _ => deaf(),
        }
    }

    /// Starts an attempt with this outbox; returns where to, or `None` if none is due.
    pub(crate) fn begin(
        &self,
        now: Duration,
        generation: u64,
        outbox: OutboxSender<C::Out>,
    ) -> Option<Arc<Place<C::Target>>> {
        let mut link = self.lock();
        let is_due = matches!(link.peer.stage(), Stage::Resting { until, .. } if until <= now);
        if !is_due {
            return None;
        }
        let from = link.peer.phase();
        let told: Told<C::In> = link.peer.step(now, Input::Begun { generation });
        let step = Step::new(from, link.peer.phase(), &told);
        link.outbox = Some(outbox);
        let place = link.place.clone();
        drop(link);
        self.tally.meters.stepped(step);
        Some(place)
    }

    /// Notes that the attempt opened a stream which this kill switch ends.
    pub(crate) fn opened(
        &self,
        inbox: &Inbox<C::In>,
        now: Duration,
        generation: u64,
        incarnation: Option<u64>,
        kill: Kill,
    ) -> Aftermath<C::Out> {
        let mut link = self.lock();
        if !link.peer.is_live(generation) {
            return Aftermath {
                outbox: None,
                kill: Some(kill),
                ended: None,
                stale_inputs: 1,
                step: None,
                reader: None,
            };
        }
        link.kill = Some(kill);
        let input = Input::Opened {
            generation,
            incarnation,
        };
        self.apply(link, inbox, now, input)
    }

    /// Steps the state machine and queues what it tells.
    pub(crate) fn step(
        &self,
        inbox: &Inbox<C::In>,
        now: Duration,
        input: Input,
    ) -> Aftermath<C::Out> {
        let delay = self.delay_after(&input);
        let mut link = self.lock();
        link.peer.offer_delay(delay);
        self.apply(link, inbox, now, input)
    }

    /// Asks the owner's policy, without the lock: it is foreign code.
    fn delay_after(&self, input: &Input) -> Option<Duration> {
        let policy = self.policy.as_ref()?;
        if !matches!(input, Input::Failed { .. } | Input::Ended { .. }) {
            return None;
        }
        // Only the worker's task adds to them, and it is here.
        let failures = self.lock().peer.failures();
        policy.delay(failures)
    }

    /// Uses another way to the same place from the next attempt on, if `known` is still
    /// the place; says whether it was.
    pub(crate) fn refresh(
        &self,
        known: &Arc<Place<C::Target>>,
        place: Arc<Place<C::Target>>,
    ) -> bool {
        let mut link = self.lock();
        let is_same = Arc::ptr_eq(&link.place, known);
        if is_same {
            link.place = place;
        }
        // What is replaced lives in `known`, and is foreign code to drop.
        is_same
    }

    /// Moves the worker elsewhere, if `known` is still its place; `None` where it is not,
    /// or the entry has left the pool.
    pub(crate) fn replace(
        &self,
        inbox: &Inbox<C::In>,
        now: Duration,
        known: &Arc<Place<C::Target>>,
        place: Arc<Place<C::Target>>,
    ) -> Option<Aftermath<C::Out>> {
        let mut link = self.lock();
        if link.peer.stage() == Stage::Gone || !Arc::ptr_eq(&link.place, known) {
            return None;
        }
        link.place = place;
        Some(self.apply(link, inbox, now, Input::Replaced))
    }

    /// Queues messages of a session, `count` with the answers among them; `false`
    /// when it is over. What nobody will take is left in `messages`.
    pub(crate) fn hear(
        &self,
        inbox: &Inbox<C::In>,
        generation: u64,
        count: usize,
        messages: &mut Vec<C::In>,
    ) -> bool {
        let mut link = self.lock();
        let is_live = link.peer.hear(generation, count);
        let mut reader = None;
        if is_live {
            reader = inbox.deliver(&self.mailbox, generation, messages);
        }
        drop(link);
        wake(reader);
        is_live
    }

    /// Takes the number of stale inputs since the last call.
    pub(crate) fn take_stale_inputs(&self) -> u64 {
        self.lock().peer.take_stale_inputs()
    }

    /// Waits for a change from outside; only the worker's task waits.
    pub(crate) async fn woken(&self) {
        self.wake.notified().await;
    }

    /// Waits until an attempt or session is no longer the worker's own; only the
    /// worker's task waits.
    pub(crate) async fn over(&self, generation: u64) {
        loop {
            let woken = self.wake.notified();
            if !self.lock().peer.is_live(generation) {
                return;
            }
            woken.await;
        }
    }

    /// Waits until the worker has a session or its entry has left the pool.
    pub(crate) async fn settled(&self) {
        loop {
            let changed = self.changed.notified();
            if matches!(self.stage(), Stage::Up { .. } | Stage::Gone) {
                return;
            }
            changed.await;
        }
    }

    fn apply(
        &self,
        mut link: MutexGuard<'_, Link<C>>,
        inbox: &Inbox<C::In>,
        now: Duration,
        input: Input,
    ) -> Aftermath<C::Out> {
        let from = link.peer.phase();
        let told = link.peer.step(now, input);
        let mut step = Step::new(from, link.peer.phase(), &told);
        let ended = told.iter().find_map(|(generation, kind)| match kind {
            EventKind::Disconnected { reason } => Some((*generation, reason.clone())),
            _ => None,
        });
        if ended.is_some() {
            link.ended.clone_from(&ended);
            link.lost_at = Some(now);
        }
        if link.peer.session().is_some() {
            step.away = link.lost_at.take().map(|at| now.saturating_sub(at));
        }
        let mut aftermath = Aftermath {
            outbox: None,
            kill: None,
            ended,
            stale_inputs: link.peer.take_stale_inputs(),
            step: Some(step),
            reader: None,
        };
        if !matches!(link.peer.stage(), Stage::Dialing | Stage::Up { .. }) {
            aftermath.outbox = link.outbox.take();
            aftermath.kill = link.kill.take();
        }
        aftermath.reader = inbox.tell(&self.mailbox, told);
        aftermath
    }

    /// Wakes the worker's task and those who wait for the worker.
    pub(super) fn announce(&self, step: Step) {
        self.tally.meters.stepped(step);
        self.wake.notify_one();
        self.changed.notify_waiters();
    }

    fn lock(&self) -> MutexGuard<'_, Link<C>> {
        self.link.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl<C: Connector> fmt::Debug for Slot<C> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Slot")
            .field("id", &self.id)
            .finish_non_exhaustive()
    }
}

/// The end of a session whose transport has dropped the request stream.
pub(crate) fn deaf() -> DisconnectReason {
    DisconnectReason::Failed(Failure::new("the worker no longer takes messages"))
}
