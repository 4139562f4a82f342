//! The thread that tells others: wakers, and the last words.
//!
//! Both can block for ever: a waker is foreign code, stderr can be a pipe that nobody
//! reads. So neither runs on the watchdog's thread, which waits for this one only for a
//! bounded time.

#[cfg(unix)]
use std::os::fd::BorrowedFd;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, OnceLock};
use std::thread;
use std::time::Duration;

#[cfg(unix)]
use rustix::event::{PollFd, PollFlags, poll};
#[cfg(unix)]
use rustix::io::Errno;

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
fn write(bytes: &[u8]) {
    // The standard descriptor is never closed by this process's own libraries; where the
    // user has closed it the write fails.
    write_to(rustix::stdio::stderr(), bytes);
}

/// Waits for a reader, as long as the process lives: a pipe that is full says so, where
/// somebody who shares it has made it non-blocking.
#[cfg(unix)]
fn write_to(fd: BorrowedFd<'_>, mut bytes: &[u8]) {
    while !bytes.is_empty() {
        match rustix::io::write(fd, bytes) {
            Ok(written) if written > 0 => bytes = &bytes[written..],
            Err(Errno::INTR) => {}
            Err(Errno::AGAIN) => match poll(&mut [PollFd::new(&fd, PollFlags::OUT)], None) {
                Ok(_) | Err(Errno::INTR) => {}
                Err(_) => return,
            },
            Ok(_) | Err(_) => return,
        }
    }
}

#[cfg(not(unix))]
fn write(bytes: &[u8]) {
    use std::io::{self, Write};

    let _ = io::stderr().write_all(bytes);
}

#[cfg(all(test, unix))]
mod tests {
    use std::io::{self, Read, Write};
    use std::os::fd::AsFd;
    use std::sync::mpsc;

    use rustix::fs::{OFlags, fcntl_setfl};

    use super::*;

    #[test]
    fn a_full_pipe_that_does_not_block_is_waited_for() {
        let (mut reader, mut writer) = io::pipe().unwrap();
        fcntl_setfl(&writer, OFlags::NONBLOCK).unwrap();
        let full = loop {
            if let Err(error) = writer.write(b"x") {
                break error.kind();
            }
        };
        assert_eq!(full, io::ErrorKind::WouldBlock);
        let (done, is_done) = mpsc::channel();
        let said = thread::spawn(move || {
            write_to(writer.as_fd(), b"last words");
            done.send(()).unwrap();
        });
        let early = is_done.recv_timeout(Duration::from_millis(100));
        assert_eq!(early, Err(mpsc::RecvTimeoutError::Timeout));
        let mut all = String::new();
        reader.read_to_string(&mut all).unwrap();
        said.join().unwrap();
        assert_eq!(all.trim_start_matches('x'), "last words");
    }
}
