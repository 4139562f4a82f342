//! What the callers of one fence and its worker share.

use std::collections::BTreeSet;
use std::mem;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::sync::Notify;

use crate::clock::boot_time;
use crate::fence::error::{AdmitError, StorageError};
use crate::fence::gate::Gate;
use crate::fence::mark::Mark;
use crate::fence::state::{Progress, State, Step, Term};
use crate::fence::store::Store;
use crate::fence::worker;
use crate::signal::Signal;
use crate::token::{Scope, Token};

/// Where callers and worker meet.
#[derive(Debug)]
pub(super) struct Desk {
    gate: Arc<Gate>,
    board: Mutex<Board>,
    /// Tells waiting callers to step again.
    pub(super) changed: Notify,
    /// Tells the worker to look again.
    pub(super) bell: Condvar,
}

/// Everything under the one lock.
#[derive(Debug)]
pub(super) struct Board {
    pub(super) state: State,
    /// None in memory, while the worker writes with it, and once the fence is closed.
    pub(super) store: Option<Store>,
    /// Fired when the present term is over.
    revoked: Arc<Signal>,
    /// When callers give up, with the number of the call.
    pub(super) alarms: BTreeSet<(Duration, u64)>,
    calls: u64,
    pub(super) has_worker: bool,
    pub(super) is_closed: bool,
}

/// One call that waits to be admitted, or for a reset to be stored.
#[derive(Debug)]
pub(super) struct Call<'a> {
    desk: &'a Arc<Desk>,
    progress: Progress,
    alarm: Option<(Duration, u64)>,
}

// ===== impl Desk =====

impl Desk {
    pub(super) fn new(state: State, store: Option<Store>) -> Self {
        let gate = Arc::clone(state.gate());
        let board = Board {
            state,
            store,
            revoked: Arc::default(),
            alarms: BTreeSet::new(),
            calls: 0,
            has_worker: false,
            is_closed: false,
        };
        Self {
            gate,
            board: Mutex::new(board),
            changed: Notify::new(),
            bell: Condvar::new(),
        }
    }

    pub(super) fn lock(&self) -> MutexGuard<'_, Board> {
        self.board.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn mark(&self) -> Mark {
        self.lock().state.mark().clone()
    }

    /// Admits at once and without a lock, if `token` is the one that is being admitted.
    #[inline]
    pub(super) fn enter(&self, token: &Token) -> bool {
        match self.gate.enter(token.scope(), token.number()) {
            Ok(()) => true,
            Err(shut) => {
                if shut.is_last {
                    self.changed.notify_waiters();
                }
                false
            }
        }
    }

    /// Gives an admission back.
    #[inline]
    pub(super) fn release(&self) {
        if self.gate.leave() {
            self.changed.notify_waiters();
        }
    }

    /// Says whether the admissions that are held are below the present term.
    pub(super) fn is_revoked(&self) -> bool {
        !self.gate.is_open()
    }

    /// Fires when the admissions that are held are below the present term.
    pub(super) fn revoked(&self) -> Arc<Signal> {
        let board = self.lock();
        if !self.is_revoked() {
            return Arc::clone(&board.revoked);
        }
        let signal = Arc::<Signal>::default();
        signal.fire();
        signal
    }

    /// Starts a new era. What was admitted before is revoked.
    pub(super) fn reset(&self, scope: Scope) {
        let mut board = self.lock();
        let before = board.state.term();
        board.state.reset(scope);
        self.announce(board, before);
    }

    /// Ends the fence: unlocks its file, at the latest when a running write ends.
    pub(super) fn close(&self) {
        let mut board = self.lock();
        board.is_closed = true;
        let store = board.store.take();
        drop(board);
        self.bell.notify_all();
        drop(store);
    }

    /// Tells those whom a new term concerns, once the lock is free.
    fn announce(&self, mut board: MutexGuard<'_, Board>, before: Term) {
        let term = board.state.term();
        if term == before {
            return;
        }
        let number = board.state.mark().number;
        let over = mem::take(&mut board.revoked);
        drop(board);
        over.fire();
        self.changed.notify_waiters();
        let lower = self.gate.count();
        tracing::info!(token = number, lower, "the fence's mark has risen");
    }
}

// ===== impl Board =====

impl Board {
    /// Sees to it that somebody saves, and wakes callers whose patience ends.
    fn hire(&mut self, desk: &Arc<Desk>) -> bool {
        let is_needed = self.state.wants_save() || !self.alarms.is_empty();
        if !is_needed || self.has_worker {
            desk.bell.notify_all();
            return true;
        }
        match worker::spawn(Arc::clone(desk)) {
            Ok(()) => {
                self.has_worker = true;
                true
            }
            Err(error) => {
                if self.state.begin_save().is_some() {
                    self.state.end_save(Err(StorageError::new(error)));
                }
                false
            }
        }
    }
}

// ===== impl Call =====

impl<'a> Call<'a> {
    pub(super) fn new(desk: &'a Arc<Desk>) -> Self {
        Self {
            desk,
            progress: Progress::default(),
            alarm: None,
        }
    }

    /// Takes `token` as far as it gets now; `None` says to wait for a change.
    pub(super) fn admit(
        &mut self,
        token: &Token,
        patience: Duration,
    ) -> Option<Result<(), AdmitError>> {
        let mut board = self.desk.lock();
        let before = board.state.term();
        let mut step = board
            .state
            .step(token, &mut self.progress, boot_time(), patience);
        if let Step::Wait(until) = step {
            self.alarm = set_alarm(&mut board, self.alarm, until);
            if !board.hire(self.desk) {
                // No thread to save or to wake this call: the next step says so.
                step = board
                    .state
                    .step(token, &mut self.progress, Duration::MAX, patience);
            }
        }
        let outcome = match step {
            Step::Admitted => Some(Ok(())),
            Step::Refused(error) => Some(Err(error)),
            Step::Wait(_) => None,
        };
        self.desk.announce(board, before);
        outcome
    }

    /// Says whether the present term is stored; `None` says to wait for a change.
    pub(super) fn store(&mut self) -> Option<Result<(), StorageError>> {
        let mut board = self.desk.lock();
        let mut is_saved = board.state.save(&mut self.progress);
        if let Ok(false) = is_saved
            && !board.hire(self.desk)
        {
            is_saved = board.state.save(&mut self.progress);
        }
        match is_saved {
            Ok(true) => Some(Ok(())),
            Ok(false) => None,
            Err(error) => Some(Err(error)),
        }
    }
}

impl Drop for Call<'_> {
    fn drop(&mut self) {
        if let Some(alarm) = self.alarm {
            self.desk.lock().alarms.remove(&alarm);
            self.desk.bell.notify_all();
        }
    }
}

fn set_alarm(
    board: &mut Board,
    present: Option<(Duration, u64)>,
    until: Option<Duration>,
) -> Option<(Duration, u64)> {
    let (None, Some(until)) = (present, until) else {
        return present;
    };
    board.calls += 1;
    board.alarms.insert((until, board.calls));
    Some((until, board.calls))
}
