//! What ends the process if all else is too late.

mod arming;

use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use crate::config::Backstop;
use crate::end::KernelTimer;
use crate::guard::Cell;

use arming::Arming;
pub(crate) use arming::{Timer, Wish, Wishes};

/// What ends a process whose lease is over, at the latest.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Grade {
    /// A timer of the kernel kills the process 20 ms before the deadline, whatever its
    /// threads do.
    Kernel,
    /// The process is the first one of a container, which nothing within can kill: a
    /// timer of the kernel raises a signal whose handler ends the process. It does not
    /// end a process that is stopped until it goes on.
    Handler,
    /// Only the watchdog's thread, which is as late as the machine is busy.
    Thread,
}

/// The kernel's timer, if there is one, armed for the present guard.
#[derive(Debug)]
pub(crate) struct DeadMan {
    arming: Option<Arming<KernelTimer, Arc<Cell>>>,
    grade: Grade,
    /// It was told that the timer cannot be set.
    is_told: AtomicBool,
}

// ===== impl DeadMan =====

impl DeadMan {
    /// Makes none: the watchdog's thread is all there is.
    pub(crate) fn none() -> Self {
        Self {
            arming: None,
            grade: Grade::Thread,
            is_told: AtomicBool::new(false),
        }
    }

    /// Makes what is wanted, as far as it is granted.
    ///
    /// An error if it is required and not granted.
    pub(crate) fn granted(wanted: Backstop) -> io::Result<Self> {
        match wanted {
            Backstop::Off => Ok(Self::none()),
            Backstop::BestEffort | Backstop::Required => Self::settled(wanted, Self::new()),
        }
    }

    fn settled(wanted: Backstop, made: io::Result<Self>) -> io::Result<Self> {
        match made {
            Err(error) if wanted == Backstop::Required => Err(error),
            Err(error) => {
                tracing::warn!(%error, "no timer of the kernel stands behind the watchdog's thread");
                Ok(Self::none())
            }
            Ok(made) => {
                if made.grade() == Grade::Handler {
                    tracing::warn!(
                        "this process is the first one: while it is stopped, nothing ends it"
                    );
                }
                Ok(made)
            }
        }
    }

    fn new() -> io::Result<Self> {
        Self::on(crate::clock::has_boot_clock())
    }

    /// Makes a timer of the kernel, if deadlines are readings of the clock that it has.
    fn on(has_boot_clock: bool) -> io::Result<Self> {
        if !has_boot_clock {
            let text = "deadlines are not readings of the boot clock, which the timer goes by";
            return Err(io::Error::new(io::ErrorKind::Unsupported, text));
        }
        let timer = KernelTimer::new()?;
        let grade = timer.grade();
        let arming = Some(Arming::new(timer));
        Ok(Self {
            arming,
            grade,
            is_told: AtomicBool::new(false),
        })
    }

    pub(crate) fn grade(&self) -> Grade {
        self.grade
    }

    /// Follows this guard from here on.
    pub(crate) fn adopt(&self, guard: &Arc<Cell>) {
        if let Some(arming) = &self.arming {
            self.tell(arming.adopt(Arc::clone(guard)));
        }
    }

    /// Does what the guard wants now. To be called after each change of it.
    pub(crate) fn follow(&self) {
        if let Some(arming) = &self.arming {
            self.tell(arming.follow());
        }
    }

    /// Once: a sandbox that came after the start refuses every renewal alike.
    fn tell(&self, set: io::Result<()>) {
        if let Err(error) = set
            && !self.is_told.swap(true, Ordering::Relaxed)
        {
            tracing::error!(
                %error,
                "the kernel's timer cannot be set: it ends the process at the deadline that it \
                 was set to last; let the sandbox allow timer_settime"
            );
        }
    }

    /// Does so unless somebody is about to. Waits for nothing.
    pub(crate) fn try_follow(&self) {
        if let Some(arming) = &self.arming {
            arming.try_follow();
        }
    }
}

/// The lock, as the model checker replaces it.
mod sync {
    pub(super) use std::sync::{Mutex, MutexGuard};

    pub(super) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
        mutex
            .lock()
            .unwrap_or_else(std::sync::PoisonError::into_inner)
    }

    pub(super) fn try_lock<T>(mutex: &Mutex<T>) -> Option<MutexGuard<'_, T>> {
        match mutex.try_lock() {
            Ok(locked) => Some(locked),
            Err(std::sync::TryLockError::Poisoned(poisoned)) => Some(poisoned.into_inner()),
            Err(std::sync::TryLockError::WouldBlock) => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What a kernel without the boot clock leads to, which this one has.
    #[test]
    fn without_a_timer_best_effort_is_the_thread_and_required_an_error() {
        let denied = || Err(io::ErrorKind::Unsupported.into());
        let granted = DeadMan::settled(Backstop::BestEffort, denied()).unwrap();
        assert_eq!(granted.grade(), Grade::Thread);
        DeadMan::settled(Backstop::Required, denied()).unwrap_err();
        let off = DeadMan::granted(Backstop::Off).unwrap();
        assert_eq!(off.grade(), Grade::Thread);
    }

    #[cfg(all(target_os = "linux", not(fencing_portable)))]
    #[test]
    fn a_timer_on_another_clock_than_the_deadlines_is_none() {
        let error = DeadMan::on(false).unwrap_err();
        assert!(error.to_string().contains("boot clock"), "{error}");
        assert_eq!(DeadMan::on(true).unwrap().grade(), Grade::Kernel);
    }

    #[cfg(not(all(target_os = "linux", not(fencing_portable))))]
    #[test]
    fn elsewhere_the_thread_is_all_there_is() {
        DeadMan::granted(Backstop::Required).unwrap_err();
        let granted = DeadMan::granted(Backstop::BestEffort).unwrap();
        assert_eq!(granted.grade(), Grade::Thread);
    }
}
