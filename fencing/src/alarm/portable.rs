//! A condition variable, for systems without a timer on the boot clock.
//!
//! Its waits may stop in suspend, so each is short and the clock is read again.

use std::io;
use std::sync::{Condvar, Mutex, PoisonError};
use std::time::Duration;

use crate::alarm::LONGEST_NAP;
use crate::clock::boot_time;

#[derive(Debug, Default)]
pub(crate) struct Alarm {
    is_rung: Mutex<bool>,
    bell: Condvar,
}

// ===== impl Alarm =====

impl Alarm {
    #[expect(clippy::unnecessary_wraps, reason = "the other alarm can fail")]
    pub(crate) fn new() -> io::Result<Self> {
        Ok(Self::default())
    }

    /// Ends the present sleep, or the next one if none is present.
    pub(crate) fn wake(&self) {
        *self.is_rung.lock().unwrap_or_else(PoisonError::into_inner) = true;
        self.bell.notify_one();
    }

    /// Sleeps until `until`, or a wake, or a while: look at the clock afterwards.
    pub(crate) fn sleep_until(&self, until: Option<Duration>) {
        let mut is_rung = self.is_rung.lock().unwrap_or_else(PoisonError::into_inner);
        if !*is_rung {
            let nap = until.map(|until| until.saturating_sub(boot_time()).min(LONGEST_NAP));
            is_rung = match nap {
                None => self
                    .bell
                    .wait(is_rung)
                    .unwrap_or_else(PoisonError::into_inner),
                Some(nap) => {
                    let slept = self.bell.wait_timeout(is_rung, nap);
                    slept.unwrap_or_else(PoisonError::into_inner).0
                }
            };
        }
        *is_rung = false;
    }
}
