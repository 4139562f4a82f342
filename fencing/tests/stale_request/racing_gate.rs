//! Hunts an effect of a lower token that overlaps one of a higher, and a wake that is
//! lost, in the part of the fence that takes no lock. Every schedule is tried in which up to
//! two threads are preempted (four in a soak run), with every reordering that the memory
//! model allows.

use loom::cell::UnsafeCell;
use loom::sync::Arc;
use loom::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use loom::thread;

#[path = "../../src/fence/gate.rs"]
#[allow(
    dead_code,
    reason = "the crate's own file, of which the model uses most"
)]
mod gate;

/// The atomics as the model checker sees them.
mod sync {
    pub(crate) use loom::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
}

use gate::Gate;

fn model(run: impl Fn() + Send + Sync + 'static) {
    let mut builder = loom::model::Builder::new();
    let is_soak = std::env::var_os("SOAK").is_some();
    builder.preemption_bound = Some(if is_soak { 4 } else { 2 });
    builder.check(run);
}

const SCOPE: &str = "a/meta";

/// A gate that was opened for token 1, and two effects: the checker fails the test when
/// one is touched by two threads of which neither knows that the other is done.
struct World {
    gate: Gate,
    effects: [UnsafeCell<()>; 2],
    wakes: AtomicUsize,
    admitted: AtomicU64,
}

impl World {
    fn new() -> Arc<Self> {
        let gate = Gate::new();
        gate.open(SCOPE, 1);
        assert!(!gate.leave(), "open: nobody waits");
        Arc::new(Self {
            gate,
            effects: [UnsafeCell::new(()), UnsafeCell::new(())],
            wakes: AtomicUsize::new(0),
            admitted: AtomicU64::new(0),
        })
    }

    fn leave(&self) {
        if self.gate.leave() {
            self.wakes.fetch_add(1, Ordering::AcqRel);
        }
    }

    /// A holder of `token` with an effect of its own.
    fn act(&self, token: u64, effect: usize) {
        match self.gate.enter(SCOPE, token) {
            Ok(()) => {
                self.effects[effect].with_mut(|_| ());
                self.admitted.fetch_add(1, Ordering::Relaxed);
                self.leave();
            }
            Err(shut) if shut.is_last => {
                self.wakes.fetch_add(1, Ordering::AcqRel);
            }
            Err(_) => {}
        }
    }

    /// One look of a fence with a higher token: takes over, or says what to wait beyond.
    fn raise(&self, token: u64, touched: &[usize]) -> Result<(), usize> {
        let wakes = self.wakes.load(Ordering::Acquire);
        self.gate.close();
        if self.gate.count() > 0 {
            return Err(wakes);
        }
        self.gate.open(SCOPE, token);
        for effect in touched {
            self.effects[*effect].with_mut(|_| ());
        }
        self.leave();
        Ok(())
    }
}

#[test]
fn no_schedule_overlaps_a_lower_effect_or_loses_the_wake() {
    model(|| {
        let world = World::new();
        let low = [0, 1].map(|effect| {
            let world = Arc::clone(&world);
            thread::spawn(move || world.act(1, effect))
        });
        let outcome = world.raise(2, &[0, 1]);
        for low in low {
            low.join().expect("acted");
        }
        if let Err(wakes) = outcome {
            let now = world.wakes.load(Ordering::Acquire);
            assert!(now > wakes, "the raise waits for a wake that never comes");
            world.raise(2, &[0, 1]).expect("nobody is left");
        }
        assert!(
            world.gate.enter(SCOPE, 1).is_err(),
            "lower, and admitted after"
        );
    });
}

/// The gate is opened for a token while a holder of an older one is at its look.
#[test]
fn no_schedule_lets_in_who_looked_before_it_was_opened_anew() {
    model(|| {
        let world = World::new();
        let stale = {
            let world = Arc::clone(&world);
            thread::spawn(move || world.act(1, 0))
        };
        let equal = {
            let world = Arc::clone(&world);
            // Touches what the stale one touches: they must not meet.
            thread::spawn(move || world.act(2, 0))
        };
        let outcome = world.raise(2, &[]);
        stale.join().expect("acted");
        equal.join().expect("acted");
        if outcome.is_err() {
            world.raise(2, &[]).expect("nobody is left");
        }
        assert!(world.admitted.load(Ordering::Relaxed) <= 2);
    });
}

/// Two raises and a reset to another scope, as they follow each other under the lock.
#[test]
fn no_schedule_takes_one_scope_for_another() {
    model(|| {
        let world = World::new();
        let foreign = {
            let world = Arc::clone(&world);
            thread::spawn(move || world.gate.enter("b/meta", 1).is_ok())
        };
        world.gate.close();
        let is_empty = world.gate.count() == 0;
        if is_empty {
            world.gate.open("c/meta", 1);
        }
        assert!(!foreign.join().expect("looked"), "of neither scope");
        assert!(world.gate.enter(SCOPE, 1).is_err());
        assert_eq!(world.gate.enter("c/meta", 1).is_ok(), is_empty);
    });
}
