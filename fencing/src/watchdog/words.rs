//! The last words of a process, written without allocation.

use std::fmt::{self, Write};
use std::time::Duration;

use crate::config::EXIT_CODE;
use crate::guard::Record;

/// One line; what does not fit is cut off.
#[derive(Debug)]
pub(super) struct Words {
    bytes: [u8; Self::MAX],
    len: usize,
}

// ===== impl Words =====

impl Words {
    const MAX: usize = 256;

    /// Says which leadership is over, why, and what still runs.
    pub(super) fn of(record: &Record, now: Duration) -> Self {
        let mut words = Self {
            bytes: [0; Self::MAX],
            len: 0,
        };
        // Writing cuts off and does not fail.
        let _ = words.say(record, now);
        words
    }

    pub(super) fn bytes(&self) -> &[u8] {
        &self.bytes[..self.len]
    }

    fn say(&mut self, record: &Record, now: Duration) -> fmt::Result {
        let token = record.token();
        write!(self, "fencing: exit {EXIT_CODE}: leadership {token} ")?;
        if record.is_tripped() {
            self.write_str("was lost")?;
        } else {
            let late = now.saturating_sub(record.abort_at()).as_millis();
            write!(
                self,
                "was not renewed in time (found {late} ms after its abort point)"
            )?;
        }
        match record.try_count() {
            Some(permits) => write!(self, "; permits held: {permits}")?,
            None => self.write_str("; permits held: unknown")?,
        }
        self.write_str("\n")
    }
}

impl Write for Words {
    fn write_str(&mut self, text: &str) -> fmt::Result {
        // The last byte is kept for the end of the line.
        let end = if text == "\n" {
            Self::MAX
        } else {
            Self::MAX - 1
        };
        let fits = text.len().min(end.saturating_sub(self.len));
        self.bytes[self.len..self.len + fits].copy_from_slice(&text.as_bytes()[..fits]);
        self.len += fits;
        Ok(())
    }
}
