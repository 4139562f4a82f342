//! The watchdog's own thread.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;

use crate::alarm::Alarm;
use crate::watchdog::{Slot, StartError};

/// At most 15 bytes, which is what Linux shows of it.
const NAME: &str = "fence-watchdog";

/// The end of the thread that its owner holds. Dropping it ends the thread as soon
/// as no guard needs it.
#[derive(Debug)]
pub(super) struct Thread {
    alarm: Arc<Alarm>,
    is_orphan: Arc<AtomicBool>,
}

// ===== impl Thread =====

impl Thread {
    pub(super) fn spawn(slot: Arc<Slot>) -> Result<Self, StartError> {
        let alarm = Arc::new(Alarm::new().map_err(StartError::Timer)?);
        let is_orphan = Arc::new(AtomicBool::new(false));
        let thread = Self {
            alarm: Arc::clone(&alarm),
            is_orphan: Arc::clone(&is_orphan),
        };
        // Not joined: an orphan outlives its owner while it has a guard to act on.
        thread::Builder::new()
            .name(NAME.to_owned())
            .spawn(move || run(&slot, &alarm, &is_orphan))
            .map_err(StartError::Thread)?;
        Ok(thread)
    }

    pub(super) fn alarm(&self) -> Arc<Alarm> {
        Arc::clone(&self.alarm)
    }

    pub(super) fn wake(&self) {
        self.alarm.wake();
    }
}

impl Drop for Thread {
    fn drop(&mut self) {
        self.is_orphan.store(true, Ordering::SeqCst);
        self.alarm.wake();
    }
}

/// Acts and sleeps by turns. Nothing in here allocates, logs or waits for a lock
/// that is held longer than it takes to exchange a pointer.
fn run(slot: &Slot, alarm: &Alarm, is_orphan: &AtomicBool) {
    loop {
        // Looked at first: an owner that goes has made its last guard before.
        let is_orphan = is_orphan.load(Ordering::SeqCst);
        let next = slot.advance();
        if is_orphan && next.is_none() {
            return;
        }
        alarm.sleep_until(next);
    }
}
