//! Ends the process: at once, or by the kernel at a reading of the boot clock.
//!
//! The one file with unsafe code. Neither way runs exit handlers, unwinds, allocates or
//! waits for a lock: `exit` can hang for ever in a handler, `abort` in one of its signal.
#![expect(
    unsafe_code,
    reason = "the standard library has no exit without handlers and no timer of the kernel"
)]

#[cfg(unix)]
use std::mem::MaybeUninit;
#[cfg(unix)]
use std::ptr;
#[cfg(unix)]
use std::sync::atomic::{AtomicI32, Ordering};

#[cfg(not(all(target_os = "linux", not(fencing_portable))))]
pub(crate) use elsewhere::KernelTimer;
#[cfg(all(target_os = "linux", not(fencing_portable)))]
pub(crate) use kernel::KernelTimer;

/// The signal that ends the process through its handler; zero while there is none.
#[cfg(unix)]
static HANDLED: AtomicI32 = AtomicI32::new(0);

/// Signals that a thread raises by what it does itself; blocked they kill at once.
#[cfg(unix)]
const OWN_FAULTS: [libc::c_int; 6] = [
    libc::SIGSEGV,
    libc::SIGBUS,
    libc::SIGILL,
    libc::SIGFPE,
    libc::SIGTRAP,
    libc::SIGABRT,
];

/// Ends the process with this exit code, at once and without any handler.
pub(crate) fn exit_now(code: i32) -> ! {
    // SAFETY: takes no pointer and does not return.
    unsafe { libc::_exit(code) }
}

/// Keeps the handlers of other code off the calling thread: one that blocks would hold it
/// up. Lets it take the signal of [`Grade::Handler`](crate::Grade::Handler), if there is
/// one: a signal that every thread blocks is taken by none.
#[cfg(unix)]
pub(crate) fn mask_signals() {
    let handled = HANDLED.load(Ordering::SeqCst);
    let mut set: MaybeUninit<libc::sigset_t> = MaybeUninit::uninit();
    // SAFETY: the set is filled by the first call before the others read it.
    unsafe {
        libc::sigfillset(set.as_mut_ptr());
        for signal in OWN_FAULTS {
            libc::sigdelset(set.as_mut_ptr(), signal);
        }
        if handled != 0 {
            libc::sigdelset(set.as_mut_ptr(), handled);
        }
        libc::pthread_sigmask(libc::SIG_SETMASK, set.as_ptr(), ptr::null_mut());
    }
}

/// There are none that reach a thread.
#[cfg(not(unix))]
pub(crate) fn mask_signals() {}

#[cfg(all(target_os = "linux", not(fencing_portable)))]
mod kernel {
    use std::io;
    use std::mem::MaybeUninit;
    use std::ptr;
    use std::sync::atomic::Ordering;
    use std::sync::{Mutex, PoisonError};
    use std::time::Duration;

    use super::{HANDLED, exit_now};
    use crate::backstop::{Grade, Timer};
    use crate::config::EXIT_CODE;

    /// Held while a signal is chosen.
    static CLAIMING: Mutex<()> = Mutex::new(());

    /// A timer of the kernel that ends the process when it fires.
    #[derive(Debug)]
    pub(crate) struct KernelTimer {
        id: libc::timer_t,
        grade: Grade,
    }

    // SAFETY: the id is a number to the kernel, though its type is a pointer; every call
    // with it may be made from any thread.
    unsafe impl Send for KernelTimer {}
    // SAFETY: as above; two calls at one time are serialized by the kernel.
    unsafe impl Sync for KernelTimer {}

    // ===== impl KernelTimer =====

    impl KernelTimer {
        /// Makes a timer that is not armed.
        ///
        /// It kills. The first process of a container cannot be killed from within: there it
        /// raises a signal whose handler ends the process.
        pub(crate) fn new() -> io::Result<Self> {
            if std::process::id() == 1 {
                let signal = claim_signal()?;
                Self::create(signal, Grade::Handler)
            } else {
                Self::create(libc::SIGKILL, Grade::Kernel)
            }
        }

        pub(crate) fn grade(&self) -> Grade {
            self.grade
        }

        fn create(signal: libc::c_int, grade: Grade) -> io::Result<Self> {
            let mut id: MaybeUninit<libc::timer_t> = MaybeUninit::uninit();
            // SAFETY: all zeros is a value of this plain struct of the C library.
            let mut event: libc::sigevent = unsafe { MaybeUninit::zeroed().assume_init() };
            event.sigev_notify = libc::SIGEV_SIGNAL;
            event.sigev_signo = signal;
            // SAFETY: both pointers are to live values of the types that the call wants.
            let made = unsafe {
                libc::timer_create(libc::CLOCK_BOOTTIME, &raw mut event, id.as_mut_ptr())
            };
            if made != 0 {
                return Err(io::Error::last_os_error());
            }
            // SAFETY: the call has succeeded, so it has written the id.
            let id = unsafe { id.assume_init() };
            Ok(Self { id, grade })
        }
    }

    impl Timer for KernelTimer {
        fn arm(&self, at: Option<Duration>) -> io::Result<()> {
            // Zero disarms; any other instant in the past fires at once.
            let at = at.map_or(Duration::ZERO, |at| at.max(Duration::from_nanos(1)));
            let value = libc::timespec {
                tv_sec: libc::time_t::try_from(at.as_secs()).unwrap_or(libc::time_t::MAX),
                tv_nsec: libc::c_long::from(at.subsec_nanos() as i32),
            };
            let spec = libc::itimerspec {
                it_interval: libc::timespec {
                    tv_sec: 0,
                    tv_nsec: 0,
                },
                it_value: value,
            };
            // SAFETY: the timer lives as long as `self`, and the pointer is to a live value.
            let set = unsafe {
                libc::timer_settime(
                    self.id,
                    libc::TIMER_ABSTIME,
                    &raw const spec,
                    ptr::null_mut(),
                )
            };
            // Id and time are right by construction; a sandbox may refuse even so.
            match set {
                0 => Ok(()),
                _ => Err(io::Error::last_os_error()),
            }
        }
    }

    impl Drop for KernelTimer {
        fn drop(&mut self) {
            // SAFETY: the timer was made by this value and is deleted once.
            unsafe { libc::timer_delete(self.id) };
        }
    }

    /// Gives a real-time signal that nobody handles a handler that ends the process.
    fn claim_signal() -> io::Result<libc::c_int> {
        // One for the process, however many watchdogs start at once.
        let _claiming = CLAIMING.lock().unwrap_or_else(PoisonError::into_inner);
        let claimed = HANDLED.load(Ordering::SeqCst);
        if claimed != 0 {
            return Ok(claimed);
        }
        for signal in (libc::SIGRTMIN()..=libc::SIGRTMAX()).rev() {
            let mut old: MaybeUninit<libc::sigaction> = MaybeUninit::zeroed();
            // SAFETY: only reads the present action, into a live value.
            let read = unsafe { libc::sigaction(signal, ptr::null(), old.as_mut_ptr()) };
            // SAFETY: zeroed, and then written by the call if it succeeded.
            let is_free = read == 0 && unsafe { old.assume_init() }.sa_sigaction == libc::SIG_DFL;
            if !is_free {
                continue;
            }
            // SAFETY: all zeros is a value of this plain struct of the C library.
            let mut action: libc::sigaction = unsafe { MaybeUninit::zeroed().assume_init() };
            let handler: extern "C" fn(libc::c_int) = on_signal;
            action.sa_sigaction = handler as libc::sighandler_t;
            // The thread that it interrupts may have used its own stack up.
            action.sa_flags = libc::SA_ONSTACK;
            // SAFETY: the handler calls nothing but `_exit`, which is safe in one.
            let set = unsafe { libc::sigaction(signal, &raw const action, ptr::null_mut()) };
            if set == 0 {
                HANDLED.store(signal, Ordering::SeqCst);
                return Ok(signal);
            }
        }
        Err(io::Error::other("every real-time signal is in use"))
    }

    extern "C" fn on_signal(_signal: libc::c_int) {
        exit_now(EXIT_CODE)
    }
}

#[cfg(not(all(target_os = "linux", not(fencing_portable))))]
mod elsewhere {
    use std::io;
    use std::time::Duration;

    use crate::backstop::{Grade, Timer};

    /// There is none.
    #[derive(Debug)]
    pub(crate) enum KernelTimer {}

    impl KernelTimer {
        pub(crate) fn new() -> io::Result<Self> {
            Err(io::ErrorKind::Unsupported.into())
        }

        pub(crate) fn grade(&self) -> Grade {
            match *self {}
        }
    }

    impl Timer for KernelTimer {
        fn arm(&self, _at: Option<Duration>) -> io::Result<()> {
            match *self {}
        }
    }
}
