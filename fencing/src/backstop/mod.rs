//! What ends the process if all else is too late.

mod arming;

use std::io;
use std::sync::Arc;

#[cfg(target_os = "linux")]
use crate::end::KernelTimer;
use crate::guard::Cell;

#[cfg(target_os = "linux")]
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
    #[cfg(target_os = "linux")]
    arming: Option<Arming<KernelTimer, Arc<Cell>>>,
    grade: Grade,
}

// ===== impl DeadMan =====

impl DeadMan {
    /// Makes none: the watchdog's thread is all there is.
    pub(crate) fn none() -> Self {
        Self {
            #[cfg(target_os = "linux")]
            arming: None,
            grade: Grade::Thread,
        }
    }

    /// Makes a timer of the kernel.
    #[cfg(target_os = "linux")]
    pub(crate) fn new() -> io::Result<Self> {
        let timer = KernelTimer::new()?;
        let grade = timer.grade();
        let arming = Some(Arming::new(timer));
        Ok(Self { arming, grade })
    }

    /// Makes a timer of the kernel.
    #[cfg(not(target_os = "linux"))]
    pub(crate) fn new() -> io::Result<Self> {
        Err(io::ErrorKind::Unsupported.into())
    }

    pub(crate) fn grade(&self) -> Grade {
        self.grade
    }

    /// Follows this guard from here on.
    pub(crate) fn adopt(&self, guard: &Arc<Cell>) {
        #[cfg(target_os = "linux")]
        if let Some(arming) = &self.arming {
            arming.adopt(Arc::clone(guard));
        }
        #[cfg(not(target_os = "linux"))]
        let _ = guard;
    }

    /// Does what the guard wants now. To be called after each change of it.
    pub(crate) fn follow(&self) {
        #[cfg(target_os = "linux")]
        if let Some(arming) = &self.arming {
            arming.follow();
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
}
