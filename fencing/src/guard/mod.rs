//! What guarded work holds: the guard and its permits.

mod cell;
mod error;
mod record;
mod state;

use std::fmt;
use std::future::{Future, poll_fn};
use std::pin::pin;
use std::sync::Arc;
use std::task::Poll;
use std::time::Duration;

use crate::blocking::block_on;

pub(crate) use cell::Cell;
pub use error::{Refused, Stopped};
pub(crate) use record::Record;
pub use state::GuardState;

/// Says whether work of one leadership may still start, and cancels it in time.
///
/// Made by [`Watchdog::guard`](crate::Watchdog::guard). Clones share one state.
/// A guard that has refused once refuses for ever: a later renewal, a later
/// leadership of the same process and a clock that goes on change nothing.
///
/// Dropping a guard is not [`finish`](Self::finish): the watchdog keeps it and
/// acts at its time as if it were held.
#[derive(Clone)]
pub struct Guard {
    record: Arc<Record>,
}

/// The right to finish one piece of work, held while it is under way.
///
/// [`Guard::finish`] waits until no permit is held, and a watchdog with a permit
/// of an earlier guard outstanding makes no new guard.
pub struct Permit {
    record: Arc<Record>,
}

// ===== impl Guard =====

impl Guard {
    pub(crate) fn new(record: Arc<Record>) -> Self {
        Self { record }
    }

    /// Returns the fencing token of the leadership that is guarded.
    #[must_use]
    pub fn token(&self) -> u64 {
        self.record.token()
    }

    /// Returns the state the guard is in now.
    #[must_use]
    pub fn state(&self) -> GuardState {
        self.record.settle()
    }

    /// Says whether something may start now.
    ///
    /// `Ok` means that at some instant during the call the cancel point had not
    /// been reached; it does not mean that the caller's next line runs in time. At
    /// most one late action for each thread that had just checked remains, and only
    /// the resource can refuse that one: send it the token. Costs one atomic load
    /// and one clock read; never waits.
    ///
    /// # Errors
    ///
    /// [`Refused`] from the cancel point on, for ever.
    pub fn check(&self) -> Result<(), Refused> {
        self.record.check()
    }

    /// Begins a piece of work that [`finish`](Self::finish) waits for.
    ///
    /// Keep the permit until the work is done, and ask [`Permit::check`] before its
    /// last step.
    ///
    /// # Errors
    ///
    /// [`Refused`] from the cancel point on, for ever.
    pub fn permit(&self) -> Result<Permit, Refused> {
        self.record.begin()?;
        Ok(Permit {
            record: Arc::clone(&self.record),
        })
    }

    /// Returns the time until the cancel point, zero once the guard refuses.
    ///
    /// Use it to cap the timeout of a request. Do not add it to a later reading of
    /// the clock: a pause in between would lengthen it.
    #[must_use]
    pub fn remaining(&self) -> Duration {
        self.record.remaining()
    }

    /// Runs `work` while the guard lives and drops it at the cancel point.
    ///
    /// Never returns `Ok` from the cancel point on, even if `work` had finished:
    /// its outcome may have come too late. What the drop interrupts may still take
    /// effect elsewhere (a request that was sent, say): its outcome is unknown until
    /// it is read back. Clean-up belongs outside of `work`.
    ///
    /// The cancellation comes from the watchdog's thread, not from a timer of the
    /// runtime; still, a future can only be dropped where its executor polls it, so
    /// work that blocks its thread is dropped when it stops blocking.
    ///
    /// # Errors
    ///
    /// [`Stopped`] when the guard refused before `work` was done.
    ///
    /// # Cancel safety
    ///
    /// Dropping the future drops `work` and leaves the guard as it is.
    pub async fn run<F: Future>(&self, work: F) -> Result<F::Output, Stopped> {
        let mut cancelled = pin!(self.cancelled());
        let mut work = pin!(work);
        poll_fn(|cx| {
            let is_cancelled = cancelled.as_mut().poll(cx).is_ready();
            if is_cancelled || self.check().is_err() {
                return Poll::Ready(Err(self.stopped()));
            }
            let Poll::Ready(output) = work.as_mut().poll(cx) else {
                return Poll::Pending;
            };
            Poll::Ready(match self.check() {
                Ok(()) => Ok(output),
                Err(_) => Err(self.stopped()),
            })
        })
        .await
    }

    /// Waits until work is to stop: the cancel point, a loss or
    /// [`finish`](Self::finish).
    ///
    /// # Cancel safety
    ///
    /// Cancel safe: nothing is consumed.
    pub fn cancelled(&self) -> impl Future<Output = ()> + Send + use<> {
        Arc::clone(self.record.cancelled()).wait()
    }

    /// Moves the deadline to a later one, after a confirmed renewal.
    ///
    /// [`deadline`](crate::deadline) makes it of when the renewal was *sent* and the
    /// time to live. The later of the old and the new deadline holds. Zero means that the
    /// lease is over: a loss, at once and final.
    ///
    /// Changes nothing from the cancel point on or after [`finish`](Self::finish):
    /// what was refused or cancelled once stays so. Waits for nothing but others who set
    /// the kernel's timer, which takes each a microsecond.
    pub fn extend(&self, deadline: Duration) {
        self.record.extend(deadline);
    }

    /// Ends the guard at once: the leadership is known to be lost.
    ///
    /// There is no grace: permits may not finish either. Without effect on a guard
    /// that is finished.
    pub fn trip(&self) {
        self.record.extend(Duration::ZERO);
    }

    /// Stops all work, so that the lease may be given back.
    ///
    /// Refuses permits and extensions from here on (the deadline is frozen),
    /// cancels, and returns when no permit is held. Then the guard is
    /// [`Finished`](GuardState::Finished), and neither a loss nor a drop means
    /// anything to it; if a permit outlived the abort point, or the guard was lost
    /// before, it is [`Lost`](GuardState::Lost). There is no limit to the wait: a
    /// permit that is never dropped holds it for ever.
    ///
    /// # Cancel safety
    ///
    /// Dropping the future leaves the guard closing: it refuses, and becomes lost at
    /// its abort point. Call it again to go on waiting.
    pub async fn finish(&self) {
        self.record.finish().await;
    }

    /// Like [`finish`](Self::finish), for code without async: blocks the thread.
    ///
    /// A permit that this very thread holds is never dropped then, and the guard is lost
    /// at its abort point.
    pub fn finish_blocking(&self) {
        block_on(self.finish());
    }

    fn stopped(&self) -> Stopped {
        Stopped::new(self.token(), self.state())
    }
}

impl fmt::Debug for Guard {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.record.fmt_as("Guard", f)
    }
}

// ===== impl Permit =====

impl Permit {
    /// Returns the fencing token of the leadership that is guarded.
    #[must_use]
    pub fn token(&self) -> u64 {
        self.record.token()
    }

    /// Says whether this piece of work may still finish now.
    ///
    /// True until the abort point, so also for a while after the guard has refused
    /// new work. Like [`Guard::check`] it speaks of an instant during the call.
    ///
    /// # Errors
    ///
    /// [`Refused`] from the abort point on, and after a loss.
    pub fn check(&self) -> Result<(), Refused> {
        self.record.check_finish()
    }
}

impl Drop for Permit {
    fn drop(&mut self) {
        self.record.end();
    }
}

impl fmt::Debug for Permit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.record.fmt_as("Permit", f)
    }
}
