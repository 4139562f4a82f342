//! The watchdog's own thread.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Duration;

use crate::alarm::Alarm;
use crate::clock::boot_time;
use crate::config::{EXIT_CODE, LAST_WORDS, Policy};
use crate::end::{exit_now, mask_signals};
use crate::guard::{GuardState, Record};
use crate::watchdog::herald::Herald;
use crate::watchdog::words::Words;
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

/// What the thread works with.
struct Post {
    slot: Arc<Slot>,
    alarm: Arc<Alarm>,
    is_orphan: Arc<AtomicBool>,
    herald: Herald,
    policy: Policy,
}

// ===== impl Thread =====

impl Thread {
    pub(super) fn spawn(slot: Arc<Slot>, policy: Policy) -> Result<Self, StartError> {
        let alarm = Arc::new(Alarm::new().map_err(StartError::Timer)?);
        let is_orphan = Arc::new(AtomicBool::new(false));
        let thread = Self {
            alarm: Arc::clone(&alarm),
            is_orphan: Arc::clone(&is_orphan),
        };
        let herald = Herald::spawn(Arc::clone(&slot))?;
        let post = Post {
            slot,
            alarm,
            is_orphan,
            herald,
            policy,
        };
        // Not joined: an orphan outlives its owner while it has a guard to act on.
        thread::Builder::new()
            .name(NAME.to_owned())
            .spawn(move || post.hold())
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

// ===== impl Post =====

impl Post {
    fn hold(&self) {
        mask_signals();
        or_end(self.policy, || self.watch());
    }

    /// Acts and sleeps by turns. Nothing in here allocates, logs, calls foreign code or
    /// waits for a lock that is held longer than it takes to exchange a pointer.
    fn watch(&self) {
        loop {
            // Looked at first: an owner that goes has made its last guard before.
            let is_orphan = self.is_orphan.load(Ordering::SeqCst);
            let mut next = None;
            if let Some(record) = self.slot.get() {
                let (state, change) = record.advance();
                next = change;
                // A caller may have been held up between its change and the timer.
                record.try_follow();
                if state != GuardState::Live {
                    self.herald.cancel();
                }
                if self.policy == Policy::Abort && record.has_lost() {
                    self.end(&record);
                }
            }
            if is_orphan && next.is_none() {
                return;
            }
            self.alarm.sleep_until(next);
        }
    }

    fn end(&self, record: &Record) -> ! {
        let now = boot_time();
        self.herald
            .say(Words::of(record, now), last_word_at(now, record.kill_at()));
        exit_now(EXIT_CODE)
    }
}

/// Until when the last words are waited for: never beyond the kill point, which nobody
/// else may be there to keep.
fn last_word_at(now: Duration, kill_at: Duration) -> Duration {
    kill_at.min(now + LAST_WORDS)
}

/// Ends the process when `watch` panics: nobody would act on a guard any more.
pub(super) fn or_end(policy: Policy, watch: impl FnOnce()) {
    let held = catch_unwind(AssertUnwindSafe(watch));
    if held.is_err() && policy == Policy::Abort {
        exit_now(EXIT_CODE);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_last_words_do_not_outlast_the_kill_point() {
        let ms = Duration::from_millis;
        // The reading at the abort point, the kill point, until when is waited.
        for (now, kill_at, until) in [(500, 980, 600), (959, 960, 960), (700, 750, 750)] {
            assert_eq!(last_word_at(ms(now), ms(kill_at)), ms(until));
        }
        // Found too late: nobody is waited for.
        assert!(last_word_at(ms(2_000), ms(980)) < ms(2_000));
    }
}
