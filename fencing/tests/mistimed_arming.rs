//! Hunts a timer that is set for an older state of the guard: it ends a healthy process,
//! or leaves a lost one alive. Every schedule of the few steps is tried.

use loom::sync::Arc;
use loom::sync::atomic::{AtomicU64, Ordering};
use loom::thread;

#[path = "../src/backstop/arming.rs"]
#[allow(
    dead_code,
    reason = "the crate's own file, of which the model uses most"
)]
mod arming;

/// The lock as the model checker sees it.
mod sync {
    pub(crate) use loom::sync::{Mutex, MutexGuard};

    pub(crate) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
        mutex.lock().expect("no holder panics")
    }

    pub(crate) fn try_lock<T>(mutex: &Mutex<T>) -> Option<MutexGuard<'_, T>> {
        mutex.try_lock().ok()
    }
}

use std::io;
use std::time::Duration;

use arming::{Arming, Timer, Wish, Wishes};

const LOST: u64 = 0;
const FINISHED: u64 = 1;
/// By when a loss that was told ends the process.
const SOON: u64 = 5;
const DISARMED: u64 = 0;

/// A guard: lost, finished, or live until a time.
#[derive(Clone)]
struct Guard(Arc<AtomicU64>);

impl Guard {
    fn live(until: u64) -> Self {
        Self(Arc::new(AtomicU64::new(until)))
    }

    /// As a renewal does: later, never earlier, and not once it is over.
    fn extend(&self, until: u64) {
        let mut old = self.0.load(Ordering::SeqCst);
        while old > FINISHED && old < until {
            match self
                .0
                .compare_exchange(old, until, Ordering::SeqCst, Ordering::SeqCst)
            {
                Ok(_) => return,
                Err(now) => old = now,
            }
        }
    }

    /// One exchange, as every change of a guard is.
    fn set(&self, state: u64) {
        self.0.swap(state, Ordering::SeqCst);
    }
}

impl Wishes for Guard {
    fn wish(&self) -> Wish {
        match self.0.load(Ordering::SeqCst) {
            LOST => Wish::By(Duration::from_secs(SOON)),
            FINISHED => Wish::Never,
            until => Wish::At(Duration::from_secs(until)),
        }
    }
}

/// The kernel's timer: what it is set to.
#[derive(Clone)]
struct Set(Arc<AtomicU64>);

impl Timer for Set {
    fn arm(&self, at: Option<Duration>) -> io::Result<()> {
        self.0
            .store(at.map_or(DISARMED, |at| at.as_secs()), Ordering::SeqCst);
        Ok(())
    }
}

fn armed_for(guard: &Guard) -> (Arc<Arming<Set, Guard>>, Set) {
    let set = Set(Arc::new(AtomicU64::new(DISARMED)));
    let arming = Arc::new(Arming::new(set.clone()));
    arming.adopt(guard.clone()).expect("set");
    (arming, set)
}

fn is_set_to(set: &Set) -> u64 {
    set.0.load(Ordering::SeqCst)
}

#[test]
fn two_renewals_leave_the_later_deadline() {
    loom::model(|| {
        let guard = Guard::live(10);
        let (arming, set) = armed_for(&guard);
        let renewals = [20, 30].map(|until| {
            let (guard, arming) = (guard.clone(), Arc::clone(&arming));
            thread::spawn(move || {
                guard.extend(until);
                arming.follow().expect("set");
            })
        });
        for renewal in renewals {
            renewal.join().expect("renewed");
        }
        assert_eq!(is_set_to(&set), 30);
    });
}

#[test]
fn a_renewal_that_races_with_a_loss_does_not_save_the_process() {
    loom::model(|| {
        let guard = Guard::live(10);
        let (arming, set) = armed_for(&guard);
        let renewal = {
            let (guard, arming) = (guard.clone(), Arc::clone(&arming));
            thread::spawn(move || {
                guard.extend(20);
                arming.follow().expect("set");
            })
        };
        guard.set(LOST);
        arming.follow().expect("set");
        assert_eq!(is_set_to(&set), SOON);
        renewal.join().expect("renewed");
        assert_eq!(is_set_to(&set), SOON);
    });
}

#[test]
fn a_renewal_stopped_before_it_sets_the_timer_is_made_up_for_by_the_next() {
    loom::model(|| {
        let guard = Guard::live(10);
        let (arming, set) = armed_for(&guard);
        // Stopped for ever between its two steps.
        let stopped = {
            let guard = guard.clone();
            thread::spawn(move || guard.extend(40))
        };
        guard.extend(20);
        arming.follow().expect("set");
        stopped.join().expect("stopped");
        arming.follow().expect("set");
        assert_eq!(is_set_to(&set), 40);
    });
}

/// The watchdog's thread never waits for a lock, and makes up for whoever is held up
/// before it has one.
#[test]
fn the_thread_makes_up_for_a_caller_that_is_held_up() {
    loom::model(|| {
        let guard = Guard::live(10);
        let (arming, set) = armed_for(&guard);
        let held_up = {
            let guard = guard.clone();
            thread::spawn(move || guard.extend(40))
        };
        let renewal = {
            let (guard, arming) = (guard.clone(), Arc::clone(&arming));
            thread::spawn(move || {
                guard.extend(20);
                arming.follow().expect("set");
            })
        };
        // May find the lock taken: then its holder reads the guard again, or the next
        // look at it does.
        arming.try_follow();
        held_up.join().expect("held up");
        renewal.join().expect("renewed");
        arming.try_follow();
        assert_eq!(is_set_to(&set), 40);
    });
}

#[test]
fn an_end_of_the_old_guard_does_not_disarm_the_new_one() {
    loom::model(|| {
        let old = Guard::live(10);
        let (arming, set) = armed_for(&old);
        old.set(FINISHED);
        let finish = {
            let arming = Arc::clone(&arming);
            thread::spawn(move || arming.follow().expect("set"))
        };
        arming.adopt(Guard::live(20)).expect("set");
        finish.join().expect("finished");
        assert_eq!(is_set_to(&set), 20);
    });
}

#[test]
fn a_finished_guard_leaves_the_timer_disarmed() {
    loom::model(|| {
        let guard = Guard::live(10);
        let (arming, set) = armed_for(&guard);
        let renewal = {
            let (guard, arming) = (guard.clone(), Arc::clone(&arming));
            thread::spawn(move || {
                guard.extend(20);
                arming.follow().expect("set");
            })
        };
        guard.set(FINISHED);
        arming.follow().expect("set");
        renewal.join().expect("renewed");
        assert_eq!(is_set_to(&set), DISARMED);
    });
}

/// A timer in whose setting a renewal comes, whose caller is stopped before it sets the
/// timer itself.
#[derive(Clone)]
struct Interrupted {
    set: Set,
    guard: Guard,
}

impl Timer for Interrupted {
    fn arm(&self, at: Option<Duration>) -> io::Result<()> {
        self.set.arm(at)?;
        self.guard.extend(40);
        Ok(())
    }
}

#[test]
fn a_renewal_in_the_middle_of_a_setting_is_set_too() {
    loom::model(|| {
        let guard = Guard::live(10);
        let set = Set(Arc::new(AtomicU64::new(DISARMED)));
        let arming = Arming::new(Interrupted {
            set: set.clone(),
            guard: guard.clone(),
        });
        arming.adopt(guard).expect("set");
        assert_eq!(is_set_to(&set), 40);
    });
}

/// A timer that a sandbox lets nobody set for a while.
#[derive(Clone)]
struct Forbidden {
    set: Set,
    is_allowed: Arc<AtomicU64>,
}

impl Timer for Forbidden {
    fn arm(&self, at: Option<Duration>) -> io::Result<()> {
        match self.is_allowed.load(Ordering::SeqCst) {
            0 => Err(io::ErrorKind::PermissionDenied.into()),
            _ => self.set.arm(at),
        }
    }
}

#[test]
fn a_setting_that_failed_is_told_and_made_up_for() {
    loom::model(|| {
        let (guard, set) = (Guard::live(10), Set(Arc::new(AtomicU64::new(DISARMED))));
        let is_allowed = Arc::new(AtomicU64::new(1));
        let arming = Arming::new(Forbidden {
            set: set.clone(),
            is_allowed: Arc::clone(&is_allowed),
        });
        arming.adopt(guard.clone()).expect("set");
        is_allowed.store(0, Ordering::SeqCst);
        guard.extend(20);
        arming.follow().expect_err("forbidden");
        assert_eq!(is_set_to(&set), 10);
        is_allowed.store(1, Ordering::SeqCst);
        // Nothing has changed since, but what was wished for.
        arming.follow().expect("set");
        assert_eq!(is_set_to(&set), 20);
    });
}
