//! The one clock of the crate: time since boot, suspend included.

use std::fmt;
use std::time::Duration;

/// Returns the time since boot, including the time the machine was suspended.
///
/// Deadlines of this crate are readings of this clock. Read it *before* the
/// request for a lease leaves, and add the time to live to that reading: the
/// store cannot have started the lease earlier, so it cannot end it earlier.
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

#[cfg(any(target_os = "linux", target_os = "android"))]
mod system {
    use std::sync::OnceLock;
    use std::time::Duration;

    use rustix::io;
    use rustix::time::{ClockId, DynamicClockId, clock_gettime, clock_gettime_dynamic};

    // Chosen once: two readings must never come from two clocks.
    static SOURCE: OnceLock<ClockId> = OnceLock::new();

    pub(super) fn now() -> Duration {
        let source = SOURCE
            .get_or_init(|| choose(clock_gettime_dynamic(DynamicClockId::Boottime).map(drop)));
        super::to_duration(clock_gettime(*source))
    }

    /// Chooses the clock by the outcome of one reading of the boot clock.
    fn choose(boottime: io::Result<()>) -> ClockId {
        match boottime {
            Ok(()) => ClockId::Boottime,
            Err(error) => {
                tracing::warn!(%error, "no boot clock: deadlines do not count time in suspend");
                ClockId::Monotonic
            }
        }
    }

    #[cfg(test)]
    mod tests {
        use super::*;

        #[test]
        fn a_kernel_without_boot_clock_gets_the_monotonic_one() {
            assert_eq!(choose(Ok(())), ClockId::Boottime);
            assert_eq!(choose(Err(io::Errno::INVAL)), ClockId::Monotonic);
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

#[cfg(all(unix, not(any(target_os = "linux", target_os = "android"))))]
mod system {
    use std::time::Duration;

    use rustix::time::{ClockId, clock_gettime};

    pub(super) fn now() -> Duration {
        super::to_duration(clock_gettime(ClockId::Monotonic))
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
}

#[cfg(unix)]
fn to_duration(time: rustix::time::Timespec) -> Duration {
    // The system's clocks since boot are never negative; zero is the safe reading
    // of one that is, since no deadline can be made from it.
    Duration::try_from(time).unwrap_or(Duration::ZERO)
}
