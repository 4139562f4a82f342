//! A timer on the boot clock and an event counter, in one poll.

use std::io;
use std::os::fd::OwnedFd;
use std::thread;
use std::time::Duration;

use rustix::event::{EventfdFlags, PollFd, PollFlags, eventfd, poll};
use rustix::io::{Errno, read, write};
use rustix::time::{
    Itimerspec, TimerfdClockId, TimerfdFlags, TimerfdTimerFlags, Timespec, timerfd_create,
    timerfd_settime,
};

use crate::alarm::LONGEST_NAP;
use crate::clock::{boot_time, has_boot_clock};

/// Counts time in suspend: a sleep over a suspend ends when the machine wakes.
#[derive(Debug)]
pub(crate) struct Alarm {
    bell: OwnedFd,
    /// Missing on kernels without a timer on the boot clock (some sandboxes).
    timer: Option<OwnedFd>,
}

// ===== impl Alarm =====

impl Alarm {
    pub(crate) fn new() -> io::Result<Self> {
        let bell = eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK)?;
        let flags = TimerfdFlags::CLOEXEC | TimerfdFlags::NONBLOCK;
        let timer = match timerfd_create(TimerfdClockId::Boottime, flags) {
            Ok(timer) => has_boot_clock().then_some(timer),
            Err(Errno::INVAL | Errno::NOSYS) => None,
            Err(error) => return Err(error.into()),
        };
        Ok(Self { bell, timer })
    }

    /// Ends the present sleep, or the next one if none is present. Never blocks.
    pub(crate) fn wake(&self) {
        // The counter can only be full if 2^64 wakes were not slept away; full wakes
        // as well as not full.
        let _ = write(&self.bell, &1_u64.to_ne_bytes());
    }

    /// Sleeps until `until`, or a wake, or a while: look at the clock afterwards.
    pub(crate) fn sleep_until(&self, until: Option<Duration>) {
        let slept = match (&self.timer, until) {
            (_, None) => self.wait(None, None),
            (Some(timer), Some(until)) => {
                set(timer, until).and_then(|()| self.wait(Some(timer), None))
            }
            (None, Some(until)) => {
                let nap = until.saturating_sub(boot_time()).min(LONGEST_NAP);
                self.wait(None, Some(nap))
            }
        };
        match slept {
            Ok(()) | Err(Errno::INTR) => {}
            // Not known to happen. A short sleep keeps the watchdog exact to some
            // milliseconds without burning a processor.
            Err(_) => thread::sleep(LONGEST_NAP / 20),
        }
        // Empties the counter; an error says that it was empty.
        let _ = read(&self.bell, &mut [0_u8; 8]);
    }

    fn wait(&self, timer: Option<&OwnedFd>, limit: Option<Duration>) -> Result<(), Errno> {
        let limit = limit.map(Timespec::try_from).transpose();
        let limit = limit.map_err(|_| Errno::INVAL)?;
        let bell = PollFd::new(&self.bell, PollFlags::IN);
        // With no timer the bell is polled twice: an array needs no allocation.
        let timer = PollFd::new(timer.unwrap_or(&self.bell), PollFlags::IN);
        poll(&mut [bell, timer], limit.as_ref()).map(drop)
    }
}

fn set(timer: &OwnedFd, until: Duration) -> Result<(), Errno> {
    // Zero would disarm the timer; any other instant in the past fires at once.
    let value = Timespec::try_from(until.max(Duration::from_nanos(1))).unwrap_or(Timespec {
        tv_sec: i64::MAX,
        tv_nsec: 0,
    });
    let spec = Itimerspec {
        it_interval: Timespec::default(),
        it_value: value,
    };
    // Setting it also takes back an expiry that nobody has read.
    timerfd_settime(timer, TimerfdTimerFlags::ABSTIME, &spec).map(drop)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn without_a_timer_the_clock_is_read_again_and_again() {
        let mut alarm = Alarm::new().unwrap();
        alarm.timer = None;
        let start = boot_time();
        alarm.sleep_until(Some(start + Duration::from_secs(3600)));
        assert!(boot_time() < start + Duration::from_secs(60));
        let until = boot_time() + Duration::from_millis(150);
        while boot_time() < until {
            alarm.sleep_until(Some(until));
        }
    }

    #[test]
    fn the_farthest_instant_can_be_set() {
        let alarm = Alarm::new().unwrap();
        alarm.wake();
        alarm.sleep_until(Some(Duration::MAX));
    }
}
