//! The one clock of the crate: time since boot, suspend included.

use std::fmt;
use std::time::Duration;

/// Returns the time since boot, including the time the machine was suspended.
///
/// Deadlines of this crate are readings of this clock. Read it *before* the
/// request for a lease leaves, and let [`deadline`](crate::deadline) add the time
/// to live: the store cannot have started the lease earlier, so it cannot end it
/// earlier.
///
/// On Linux this is `CLOCK_BOOTTIME`. A kernel without it (some sandboxes) gets
/// `CLOCK_MONOTONIC`, which stops in suspend; the first reading then logs a
/// warning. On Apple systems it is `CLOCK_MONOTONIC`, which counts sleep there.
/// Elsewhere it is the system's monotonic clock, and on systems that are not
/// Unix it counts from the first reading of the process: compare readings of
/// one process only.
///
/// # Examples
///
/// ```
/// let sent = fencing::boot_time();
/// assert!(fencing::boot_time() >= sent);
/// ```
#[must_use]
pub fn boot_time() -> Duration {
    system::now()
}

/// Says whether the clock counts time in suspend as the timers of the kernel do that are
/// set by it. One set by another clock would fire at a wrong time.
pub(crate) fn has_boot_clock() -> bool {
    system::has_boot_clock()
}

/// A source of time since boot.
#[derive(Clone)]
pub(crate) enum Clock {
    /// The machine's clock.
    Boot,
    /// A function given by a test.
    #[cfg(any(test, feature = "test-util"))]
    Simulated(std::sync::Arc<dyn Fn() -> Duration + Send + Sync>),
}

// ===== impl Clock =====

impl Clock {
    pub(crate) fn now(&self) -> Duration {
        match self {
            Self::Boot => boot_time(),
            #[cfg(any(test, feature = "test-util"))]
            Self::Simulated(read) => read(),
        }
    }
}

impl fmt::Debug for Clock {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Boot => "Boot",
            #[cfg(any(test, feature = "test-util"))]
            Self::Simulated(_) => "Simulated",
        })
    }
}

#[cfg(all(any(target_os = "linux", target_os = "android"), not(fencing_portable)))]
mod system {
    use std::sync::OnceLock;
    use std::time::Duration;

    use rustix::io;
    use rustix::time::{ClockId, DynamicClockId, clock_gettime, clock_gettime_dynamic};

    // Chosen once: two readings must never come from two clocks.
    static SOURCE: OnceLock<ClockId> = OnceLock::new();

    pub(super) fn now() -> Duration {
        super::to_duration(clock_gettime(source(&SOURCE, read_boot_clock)))
    }

    pub(super) fn has_boot_clock() -> bool {
        source(&SOURCE, read_boot_clock) == ClockId::Boottime
    }

    fn read_boot_clock() -> io::Result<()> {
        clock_gettime_dynamic(DynamicClockId::Boottime).map(drop)
    }

    /// Chooses the clock by one reading of the boot clock. Nobody waits for the one who
    /// chooses, and the warning may read the clock itself.
    fn source(chosen: &OnceLock<ClockId>, boottime: fn() -> io::Result<()>) -> ClockId {
        if let Some(source) = chosen.get() {
            return *source;
        }
        let (choice, error) = match boottime() {
            Ok(()) => (ClockId::Boottime, None),
            Err(error) => (ClockId::Monotonic, Some(error)),
        };
        if chosen.set(choice).is_ok()
            && let Some(error) = error
        {
            tracing::warn!(%error, "no boot clock: deadlines do not count time in suspend");
        }
        *chosen.get().unwrap_or(&choice)
    }

    #[cfg(test)]
    mod tests {
        use std::sync::atomic::{AtomicUsize, Ordering};

        use tracing::span::{Attributes, Id, Record};
        use tracing::{Event, Level, Metadata, Subscriber};

        use super::*;

        /// Counts what is logged, and reads the clock for it, as loggers do.
        struct Counting {
            chosen: OnceLock<ClockId>,
            warnings: AtomicUsize,
        }

        impl Subscriber for &'static Counting {
            fn enabled(&self, _: &Metadata<'_>) -> bool {
                true
            }
            fn new_span(&self, _: &Attributes<'_>) -> Id {
                Id::from_u64(1)
            }
            fn record(&self, _: &Id, _: &Record<'_>) {}
            fn record_follows_from(&self, _: &Id, _: &Id) {}
            fn event(&self, event: &Event<'_>) {
                assert_eq!(*event.metadata().level(), Level::WARN);
                self.warnings.fetch_add(1, Ordering::SeqCst);
                source(&self.chosen, || Err(io::Errno::INVAL));
            }
            fn enter(&self, _: &Id) {}
            fn exit(&self, _: &Id) {}
        }

        #[test]
        fn a_kernel_without_boot_clock_gets_the_monotonic_one_and_one_warning() {
            let counting: &'static Counting = Box::leak(Box::new(Counting {
                chosen: OnceLock::new(),
                warnings: AtomicUsize::new(0),
            }));
            tracing::subscriber::with_default(counting, || {
                for _ in 0..3 {
                    let chosen = source(&counting.chosen, || Err(io::Errno::INVAL));
                    assert_eq!(chosen, ClockId::Monotonic);
                    let chosen = source(&OnceLock::new(), || Ok(()));
                    assert_eq!(chosen, ClockId::Boottime);
                }
            });
            let said = counting.warnings.load(Ordering::SeqCst);
            assert_eq!(said, 1);
            println!("CASE F05 fault={said}");
        }

        #[test]
        fn time_counts_from_boot() {
            let text = std::fs::read_to_string("/proc/uptime").unwrap();
            let uptime: f64 = text.split(' ').next().unwrap().parse().unwrap();
            let here = now().as_secs_f64();
            assert!((here - uptime).abs() < 5.0, "{here} is not near {uptime}");
        }
    }
}

#[cfg(all(
    unix,
    any(fencing_portable, not(any(target_os = "linux", target_os = "android")))
))]
mod system {
    use std::time::Duration;

    use rustix::time::{ClockId, clock_gettime};

    pub(super) fn now() -> Duration {
        super::to_duration(clock_gettime(ClockId::Monotonic))
    }

    pub(super) fn has_boot_clock() -> bool {
        false
    }
}

#[cfg(not(unix))]
mod system {
    use std::sync::OnceLock;
    use std::time::{Duration, Instant};

    static START: OnceLock<Instant> = OnceLock::new();

    #[expect(clippy::disallowed_methods, reason = "this file is the crate's clock")]
    pub(super) fn now() -> Duration {
        Instant::now().duration_since(*START.get_or_init(Instant::now))
    }

    pub(super) fn has_boot_clock() -> bool {
        false
    }
}

#[cfg(unix)]
fn to_duration(time: rustix::time::Timespec) -> Duration {
    // The system's clocks since boot are never negative; zero is the safe reading
    // of one that is, since no deadline can be made from it.
    Duration::try_from(time).unwrap_or(Duration::ZERO)
}
