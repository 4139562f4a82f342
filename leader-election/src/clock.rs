//! The one place that reads a clock.
//!
//! Deadlines are on the suspend-aware clock of the machine (`CLOCK_BOOTTIME`
//! on Linux). tokio's clock stops in suspend: it drives timers, never
//! deadlines, except in simulations, where it drives both.

use std::{fmt, sync::Arc, time::Duration};

/// A function to the time since boot.
#[derive(Clone)]
pub(crate) struct Clock(Arc<dyn Fn() -> Duration + Send + Sync>);

// ===== impl Clock =====

impl Clock {
    /// The machine's own clock.
    pub(crate) fn boot() -> Self {
        Self(Arc::new(boot_time))
    }

    /// A clock of the caller's, for simulations.
    #[cfg(feature = "test-util")]
    pub(crate) fn custom(clock: impl Fn() -> Duration + Send + Sync + 'static) -> Self {
        Self(Arc::new(clock))
    }

    pub(crate) fn now(&self) -> Duration {
        (self.0)()
    }
}

impl fmt::Debug for Clock {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Clock({:?})", self.now())
    }
}

/// Reads tokio's clock: the memory store's own time, paused with the runtime.
pub(crate) fn tokio_now() -> tokio::time::Instant {
    tokio::time::Instant::now()
}

/// Returns the time of tokio's clock, counted from an arbitrary origin.
///
/// This is the clock of a simulated election: under paused tokio time it moves
/// together with the timers. Its origin is the same everywhere in the process,
/// so it can also be given to other simulated parts, and their deadlines
/// compare. It is never zero.
#[cfg(feature = "test-util")]
#[cfg_attr(docsrs, doc(cfg(feature = "test-util")))]
#[must_use]
pub fn simulated_time() -> Duration {
    use std::sync::OnceLock;

    // A runtime's paused clock stands still from when the runtime was built,
    // which can be before the first call: the origin lies well before both.
    const HEAD_START: Duration = Duration::from_secs(3600);
    static ORIGIN: OnceLock<std::time::Instant> = OnceLock::new();
    #[expect(
        clippy::disallowed_methods,
        reason = "the origin of the simulated clock"
    )]
    let origin = *ORIGIN.get_or_init(std::time::Instant::now);
    let now = tokio_now().into_std();
    match now.checked_duration_since(origin) {
        Some(after) => HEAD_START + after,
        None => HEAD_START.saturating_sub(origin - now),
    }
}

/// Returns the machine's time since boot, suspend included: the clock that deadlines are on.
///
/// `CLOCK_BOOTTIME` on Linux and Android; elsewhere the monotonic clock, which may stop in
/// suspend. All processes of a machine share it. Elections of the feature `test-util` that
/// are on a simulated clock have their own.
///
/// # Examples
///
/// ```
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), leader_election::Error> {
/// use leader_election::{Election, ElectionConfig, MemoryElection, boot_time};
///
/// let election = MemoryElection::new(ElectionConfig::default(), 1);
/// let leadership = election.campaign(b"node-1").await?;
/// assert!(leadership.deadline() > boot_time());
/// # Ok(())
/// # }
/// ```
#[must_use]
pub fn boot_time() -> Duration {
    machine_time()
}

#[cfg(any(target_os = "linux", target_os = "android"))]
fn machine_time() -> Duration {
    since_boot(rustix::time::ClockId::Boottime)
}

// Outside Linux the closest clock that std or rustix offers; whether it goes on
// in suspend depends on the system (it does on macOS).
#[cfg(all(unix, not(any(target_os = "linux", target_os = "android"))))]
fn machine_time() -> Duration {
    since_boot(rustix::time::ClockId::Monotonic)
}

#[cfg(unix)]
fn since_boot(clock: rustix::time::ClockId) -> Duration {
    let now = rustix::time::clock_gettime(clock);
    let secs = u64::try_from(now.tv_sec).unwrap_or(0);
    let nanos = u32::try_from(now.tv_nsec).unwrap_or(0);
    Duration::new(secs, nanos)
}

#[cfg(not(unix))]
fn machine_time() -> Duration {
    use std::{sync::OnceLock, time::Instant};

    static ORIGIN: OnceLock<Instant> = OnceLock::new();
    #[expect(
        clippy::disallowed_methods,
        reason = "the documented fallback where no boot clock is available"
    )]
    let now = Instant::now();
    // Zero means over, so the first reading must not be zero.
    Duration::from_secs(1) + now.duration_since(*ORIGIN.get_or_init(|| now))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn boot_clock_is_past_zero_and_never_falls() {
        let clock = Clock::boot();
        let first = clock.now();
        let second = clock.now();
        assert!(first > Duration::ZERO);
        assert!(second >= first);
    }

    #[cfg(feature = "test-util")]
    #[tokio::test(start_paused = true)]
    async fn simulated_clock_moves_with_paused_time() {
        let before = simulated_time();
        tokio::time::advance(Duration::from_secs(3600)).await;
        let passed = simulated_time() - before;
        assert_eq!(passed, Duration::from_secs(3600));
    }
}
