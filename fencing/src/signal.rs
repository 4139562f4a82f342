//! An event that happens once and stays.

use std::mem;
use std::panic::{self, AssertUnwindSafe};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use tokio::sync::Notify;

/// Fires once; who waits later is told at once.
#[derive(Debug, Default)]
pub(crate) struct Signal {
    fired: AtomicBool,
    waiting: Notify,
}

// ===== impl Signal =====

impl Signal {
    /// Fires, and says whether this call did it. Neither allocates nor waits.
    pub(crate) fn fire(&self) -> bool {
        let first = !self.fired.swap(true, Ordering::SeqCst);
        if first {
            wake_all(&self.waiting);
        }
        first
    }

    pub(crate) fn has_fired(&self) -> bool {
        self.fired.load(Ordering::SeqCst)
    }

    /// Waits without borrowing, so that the future can be spawned.
    pub(crate) async fn wait(self: Arc<Self>) {
        // Listens from here on, before it is polled: looking first would miss what
        // happens in between.
        let fired = self.waiting.notified();
        if !self.has_fired() {
            fired.await;
        }
    }
}

/// Wakes all who wait now, and outlives a waker that panics.
///
/// Wakers are the executor's code and run on the watchdog's thread, which must go
/// on whatever they do.
pub(crate) fn wake_all(waiting: &Notify) {
    let woken = panic::catch_unwind(AssertUnwindSafe(|| waiting.notify_waiters()));
    if let Err(payload) = woken {
        // Foreign code, too: its drop may panic.
        mem::forget(payload);
    }
}
