//! The state of one leadership that its handle and its driver share.

use std::{
    fmt,
    panic::{AssertUnwindSafe, catch_unwind},
    sync::{
        Mutex, MutexGuard, PoisonError,
        atomic::{AtomicBool, AtomicU64, Ordering},
    },
    time::Duration,
};

use tokio::sync::watch;

use crate::{Loss, Resigned, clock::Clock};

type Follower = Box<dyn FnMut(Duration) + Send>;

/// Zero in the deadline: over, for good.
const OVER: u64 = 0;

/// The deadline, those who follow it, and how it ended.
///
/// The deadline is one atomic, so that a check needs no lock and works while
/// everything else is stuck. It only rises, until it is latched at zero: by the
/// end, or by the first check that finds it in the past. A renewal confirmed
/// after that finds the zero and changes nothing.
pub(crate) struct Tenure {
    clock: Clock,
    /// Nanoseconds since boot.
    deadline: AtomicU64,
    ended: AtomicBool,
    /// Held while they are called: this serialises the calls.
    followers: Mutex<Vec<Follower>>,
    loss: watch::Sender<Option<Loss>>,
    release: watch::Sender<Option<Resigned>>,
}

// ===== impl Tenure =====

impl Tenure {
    pub(crate) fn new(clock: Clock, deadline: Duration) -> Self {
        Self {
            clock,
            deadline: AtomicU64::new(nanos(deadline)),
            ended: AtomicBool::new(false),
            followers: Mutex::new(Vec::new()),
            loss: watch::Sender::new(None),
            release: watch::Sender::new(None),
        }
    }

    /// Returns the deadline, or zero when it is over or past.
    pub(crate) fn deadline(&self) -> Duration {
        // The deadline first, the clock second: a pause between the two can
        // only make the answer stricter.
        let mut seen = self.deadline.load(Ordering::SeqCst);
        while seen != OVER && nanos(self.clock.now()) >= seen {
            // Latch it: what a check has once found over never comes back.
            match self.swap_deadline(seen, OVER) {
                Ok(()) => return Duration::ZERO,
                Err(newer) => seen = newer,
            }
        }
        Duration::from_nanos(seen)
    }

    /// Returns the time left until the deadline.
    pub(crate) fn remaining(&self) -> Duration {
        self.deadline().saturating_sub(self.clock.now())
    }

    /// Raises the deadline and tells the followers; false if it was too late.
    pub(crate) fn extend(&self, to: Duration) -> bool {
        let to = nanos(to);
        let mut followers = self.followers();
        let mut seen = nanos(self.deadline());
        while seen < to {
            if seen == OVER {
                return false;
            }
            match self.swap_deadline(seen, to) {
                Ok(()) => break,
                Err(newer) => seen = newer,
            }
        }
        if seen >= to {
            return true;
        }
        let sound = tell(&mut followers, Duration::from_nanos(to));
        drop(followers);
        if !sound {
            self.end(Loss::FollowerPanicked);
        }
        sound
    }

    /// Ends the leadership: deadline, then followers, then whoever waits.
    ///
    /// The first reason stays. When it returns on the thread that came first,
    /// every follower has been told.
    pub(crate) fn end(&self, loss: Loss) {
        self.deadline.store(OVER, Ordering::SeqCst);
        if self.ended.swap(true, Ordering::SeqCst) {
            return;
        }
        let mut told = {
            let mut followers = self.followers();
            tell(&mut followers, Duration::ZERO);
            std::mem::take(&mut *followers)
        };
        self.loss.send_replace(Some(loss));
        // Outside the lock: what a callback owns may end this leadership too.
        told.clear();
    }

    pub(crate) fn follow(&self, follower: Follower) {
        let mut one = vec![follower];
        let mut followers = self.followers();
        let now = self.deadline();
        let sound = tell(&mut one, now);
        if sound && !now.is_zero() {
            followers.append(&mut one);
        }
        drop(followers);
        if !sound {
            self.end(Loss::FollowerPanicked);
        }
    }

    pub(crate) fn loss(&self) -> Option<Loss> {
        *self.loss.borrow()
    }

    pub(crate) fn watch_loss(&self) -> watch::Receiver<Option<Loss>> {
        self.loss.subscribe()
    }

    /// Notes what became of the place; the first outcome stays.
    pub(crate) fn released(&self, outcome: Resigned) {
        self.release.send_if_modified(|known| {
            let first = known.is_none();
            known.get_or_insert(outcome);
            first
        });
    }

    pub(crate) fn watch_release(&self) -> watch::Receiver<Option<Resigned>> {
        self.release.subscribe()
    }

    fn swap_deadline(&self, from: u64, to: u64) -> Result<(), u64> {
        self.deadline
            .compare_exchange(from, to, Ordering::SeqCst, Ordering::SeqCst)
            .map(drop)
    }

    fn followers(&self) -> MutexGuard<'_, Vec<Follower>> {
        // A panic of a follower is caught, so the list is whole.
        self.followers
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
    }
}

impl fmt::Debug for Tenure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Tenure")
            .field("deadline", &self.deadline())
            .field("loss", &self.loss())
            .finish_non_exhaustive()
    }
}

/// Calls all of them; drops those that panic and says whether none did.
fn tell(followers: &mut Vec<Follower>, deadline: Duration) -> bool {
    let before = followers.len();
    followers.retain_mut(|follower| catch_unwind(AssertUnwindSafe(|| follower(deadline))).is_ok());
    followers.len() == before
}

fn nanos(time: Duration) -> u64 {
    u64::try_from(time.as_nanos()).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests;
