//! An event that happens once and stays.

use std::future::{Future, poll_fn};
use std::mem;
use std::panic::{self, AssertUnwindSafe};
use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Context, Wake, Waker};

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
            self.waiting.notify_waiters();
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
            hear(fired).await;
        }
    }
}

/// Waits with a waker whose panic is its own: others who wait are woken all the same.
///
/// Wakers are the executor's code. They run on the thread that wakes, which must go on
/// whatever they do: the watchdog's, or that of a fence.
pub(crate) async fn hear(waiting: impl Future<Output = ()>) {
    let mut waiting = pin!(waiting);
    let mut calm = None;
    poll_fn(|cx| {
        let known = calm.take();
        let (_, waker) = calm.insert(match known {
            Some((inner, waker)) if Waker::will_wake(&inner, cx.waker()) => (inner, waker),
            _ => (
                cx.waker().clone(),
                Arc::new(Calm(cx.waker().clone())).into(),
            ),
        });
        waiting.as_mut().poll(&mut Context::from_waker(waker))
    })
    .await;
}

/// A waker that does not panic.
struct Calm(Waker);

impl Wake for Calm {
    fn wake(self: Arc<Self>) {
        self.wake_by_ref();
    }

    fn wake_by_ref(self: &Arc<Self>) {
        let woken = panic::catch_unwind(AssertUnwindSafe(|| self.0.wake_by_ref()));
        if let Err(payload) = woken {
            // Foreign code, too: its drop may panic.
            mem::forget(payload);
        }
    }
}
