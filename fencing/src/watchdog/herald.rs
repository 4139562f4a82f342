//! The thread that tells others: wakers, and the last words.
//!
//! Both can block for ever: a waker is foreign code, stderr can be a pipe that nobody
//! reads. So neither runs on the watchdog's thread, which waits for this one only for a
//! bounded time.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, OnceLock};
use std::thread;
use std::time::Duration;

use crate::alarm::Alarm;
use crate::clock::boot_time;
use crate::end::mask_signals;
use crate::watchdog::words::Words;
use crate::watchdog::{Slot, StartError};

/// At most 15 bytes, which is what Linux shows of it.
const NAME: &str = "fence-herald";

/// The watchdog's end of its herald; the thread ends with it.
#[derive(Debug)]
pub(super) struct Herald {
    desk: Arc<Desk>,
}

#[derive(Debug)]
struct Desk {
    alarm: Alarm,
    words: OnceLock<Words>,
    /// The last words are written.
    is_done: AtomicBool,
    /// Rings then.
    done: Alarm,
    is_over: AtomicBool,
}

// ===== impl Herald =====

impl Herald {
    pub(super) fn spawn(slot: Arc<Slot>) -> Result<Self, StartError> {
        let desk = Arc::new(Desk {
            alarm: Alarm::new().map_err(StartError::Timer)?,
            words: OnceLock::new(),
            is_done: AtomicBool::new(false),
            done: Alarm::new().map_err(StartError::Timer)?,
            is_over: AtomicBool::new(false),
        });
        let herald = Self {
            desk: Arc::clone(&desk),
        };
        thread::Builder::new()
            .name(NAME.to_owned())
            .spawn(move || run(&slot, &desk))
            .map_err(StartError::Thread)?;
        Ok(herald)
    }

    /// Cancels what is to be cancelled.
    pub(super) fn cancel(&self) {
        self.desk.alarm.wake();
    }

    /// Writes these words to stderr, and waits for it until then at most.
    pub(super) fn say(&self, words: Words, until: Duration) {
        // Nobody sets them twice: the process ends behind this call.
        let _ = self.desk.words.set(words);
        self.desk.alarm.wake();
        while !self.desk.is_done.load(Ordering::SeqCst) && boot_time() < until {
            self.desk.done.sleep_until(Some(until));
        }
    }
}

impl Drop for Herald {
    fn drop(&mut self) {
        self.desk.is_over.store(true, Ordering::SeqCst);
        self.desk.alarm.wake();
    }
}

fn run(slot: &Slot, desk: &Desk) {
    mask_signals();
    loop {
        let is_over = desk.is_over.load(Ordering::SeqCst);
        // The words first: a waker may not come back.
        if let Some(words) = desk.words.get() {
            write(words.bytes());
            desk.is_done.store(true, Ordering::SeqCst);
            desk.done.wake();
        }
        slot.cancel();
        if is_over {
            return;
        }
        desk.alarm
            .sleep_until(Some(boot_time() + Duration::from_secs(3600)));
    }
}

/// Writes past the lock of the standard library's stderr, whose holder may be stopped.
#[cfg(unix)]
fn write(mut bytes: &[u8]) {
    while !bytes.is_empty() {
        // SAFETY of the descriptor: the standard one is never closed by this process's
        // own libraries; where the user has closed it the write fails.
        match rustix::io::write(rustix::stdio::stderr(), bytes) {
            Ok(0) | Err(_) => return,
            Ok(written) => bytes = &bytes[written..],
        }
    }
}

#[cfg(not(unix))]
fn write(bytes: &[u8]) {
    use std::io::Write;

    let _ = io::stderr().write_all(bytes);
}
