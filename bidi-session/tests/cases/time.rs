//! Bounds in real time, on machines that are busy with other things.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use tokio::time::Instant;

/// A session that is dead is found out within 5 s + 5 s; the rest is for the news.
pub(crate) const DETECTION: Duration = Duration::from_secs(11);

/// For what must be told without keepalive.
pub(crate) const AT_ONCE: Duration = Duration::from_secs(1);

const TICK: Duration = Duration::from_millis(20);

/// Time since a moment, with what the machine withheld from this process meanwhile.
pub(crate) struct Watch {
    start: Instant,
    withheld_ms: Arc<AtomicU64>,
    is_over: Arc<AtomicBool>,
}

// ===== impl Watch =====

impl Watch {
    pub(crate) fn start() -> Self {
        let watch = Self {
            start: Instant::now(),
            withheld_ms: Arc::default(),
            is_over: Arc::default(),
        };
        let (withheld, is_over) = (watch.withheld_ms.clone(), watch.is_over.clone());
        std::thread::spawn(move || {
            while !is_over.load(Ordering::Relaxed) {
                let before = Instant::now();
                std::thread::sleep(TICK);
                let late = before.elapsed().saturating_sub(TICK);
                // A thread that wakes in time runs a millisecond late at most.
                let late = u64::try_from(late.as_millis()).unwrap();
                withheld.fetch_add(late.saturating_sub(1), Ordering::Relaxed);
            }
        });
        watch
    }

    pub(crate) fn elapsed(&self) -> Duration {
        self.start.elapsed()
    }

    /// Fails when more time has passed than that, and what was withheld.
    pub(crate) fn within(&self, limit: Duration, what: &str) -> Duration {
        let elapsed = self.elapsed();
        let withheld = Duration::from_millis(self.withheld_ms.load(Ordering::Relaxed));
        assert!(
            elapsed <= limit + withheld,
            "{what} took {elapsed:.2?}, more than {limit:.2?} and {withheld:.2?} of a busy machine"
        );
        elapsed
    }
}

impl Drop for Watch {
    fn drop(&mut self) {
        self.is_over.store(true, Ordering::Relaxed);
    }
}

/// Returns the size of the long version under `SOAK=1`, else the short one's.
pub(crate) fn size<T>(short: T, long: T) -> T {
    if std::env::var_os("SOAK").is_some_and(|soak| soak == "1") {
        long
    } else {
        short
    }
}
