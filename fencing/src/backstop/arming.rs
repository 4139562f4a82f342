//! Keeps a timer armed for what the present guard wants.
//!
//! Two callers may renew at once, and one may be stopped between its change of the
//! guard and its setting of the timer. So nobody sets the timer to what it has itself
//! written: under one short lock the guard is read again, and again after each setting,
//! until the timer is set to what was read last. Whoever comes later finds the newest.

use std::io;
use std::time::Duration;

use super::sync::{Mutex, MutexGuard};

/// Something that fires at an instant since boot.
pub(crate) trait Timer {
    /// Sets the instant; `None` disarms. An error leaves it as it was.
    fn arm(&self, at: Option<Duration>) -> io::Result<()>;
}

/// What a guard wants of the timer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Wish {
    /// Nothing is guarded.
    Never,
    /// The lease goes on until shortly after this.
    At(Duration),
    /// The lease is over: by this instant, and not later than was wished before.
    By(Duration),
}

/// Somebody with a wish, which changes.
pub(crate) trait Wishes {
    fn wish(&self) -> Wish;
}

/// A timer, and what it was last set to and for whom.
#[derive(Debug)]
pub(crate) struct Arming<T, G> {
    timer: T,
    state: Mutex<State<G>>,
}

#[derive(Debug)]
struct State<G> {
    guard: Option<G>,
    armed: Option<Duration>,
}

// ===== impl Arming =====

impl<T: Timer, G: Wishes> Arming<T, G> {
    pub(crate) fn new(timer: T) -> Self {
        Self {
            timer,
            state: Mutex::new(State {
                guard: None,
                armed: None,
            }),
        }
    }

    /// Follows this guard from here on.
    pub(crate) fn adopt(&self, guard: G) -> io::Result<()> {
        let mut state = self.lock();
        let old = state.guard.replace(guard);
        let set = self.set(&mut state);
        drop(state);
        // Freed without the lock.
        drop(old);
        set
    }

    /// Sets the timer to what the guard wants now. To be called after each change.
    pub(crate) fn follow(&self) -> io::Result<()> {
        self.set(&mut self.lock())
    }

    /// Does so unless somebody else does, who may be stopped meanwhile. Waits for nothing.
    pub(crate) fn try_follow(&self) {
        if let Some(mut state) = super::sync::try_lock(&self.state) {
            // Who changed the guard has the same error and tells it.
            let _ = self.set(&mut state);
        }
    }

    /// An error is tried again by the next who follows.
    fn set(&self, state: &mut State<G>) -> io::Result<()> {
        while let Some(guard) = &state.guard {
            let wanted = match guard.wish() {
                Wish::Never => None,
                Wish::At(at) => Some(at),
                Wish::By(at) => Some(state.armed.map_or(at, |armed| armed.min(at))),
            };
            if wanted == state.armed {
                break;
            }
            self.timer.arm(wanted)?;
            state.armed = wanted;
        }
        Ok(())
    }

    fn lock(&self) -> MutexGuard<'_, State<G>> {
        super::sync::lock(&self.state)
    }
}
