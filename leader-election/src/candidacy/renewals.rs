//! When renewals are sent, and when each of those in flight was.

use std::time::Duration;

use crate::{backoff::Backoff, config::Timing};

/// Attempts in flight at once: a slow one does not delay the next, and a store
/// that never answers cannot pile them up.
const MAX_IN_FLIGHT: usize = 4;
/// Long leases must not make for a late return of a store that was away.
const MAX_PAUSE: Duration = Duration::from_millis(500);

/// The renewals of one place.
#[derive(Debug)]
pub(super) struct Renewals {
    every: Duration,
    timeout: Duration,
    due: Option<Duration>,
    in_flight: Vec<Attempt>,
    next_number: u64,
    last_sent: Option<Duration>,
    /// Of those who wait.
    backoff: Backoff,
}

#[derive(Debug)]
struct Attempt {
    number: u64,
    sent: Duration,
}

/// How soon an attempt that failed is repeated.
#[derive(Clone, Copy, Debug)]
pub(super) enum Again {
    /// A leader's: at once where it timed out, so that two full ones fit, and after a pause
    /// where it failed early.
    Soon,
    /// A leader's that the store refuses: as if it had timed out. Each may cost the store the
    /// check of a password.
    AfterTimeout,
    /// Of one who waits: it has no deadline, and many may wait. They come after longer and
    /// longer pauses, but within `renew_every` of each other, so that a place lasts in a store
    /// that is back.
    LaterAndLater,
}

// ===== impl Renewals =====

impl Renewals {
    pub(super) fn new(timing: Timing, seed: u64) -> Self {
        Self {
            every: timing.renew_every,
            timeout: timing.renew_timeout,
            due: None,
            in_flight: Vec::new(),
            next_number: 0,
            last_sent: None,
            backoff: Backoff::new(timing.renew_every, seed),
        }
    }

    /// Begins with the request that got the place, sent at `sent`.
    pub(super) fn start(&mut self, sent: Duration) {
        self.last_sent = Some(sent);
        self.due = Some(sent + self.every);
        self.backoff.reset();
    }

    /// Ends all of them: what is in flight counts no more.
    pub(super) fn stop(&mut self) {
        self.in_flight.clear();
        self.due = None;
        self.last_sent = None;
    }

    /// When the next one is to be sent.
    pub(super) fn next_due(&self) -> Option<Duration> {
        self.due.filter(|_| self.in_flight.len() < MAX_IN_FLIGHT)
    }

    /// When the youngest request was sent that may have started the lease anew.
    pub(super) fn last_sent(&self) -> Option<Duration> {
        self.last_sent
    }

    /// Notes an attempt as sent now and returns its number.
    pub(super) fn send(&mut self, now: Duration) -> u64 {
        let number = self.next_number;
        self.next_number += 1;
        self.in_flight.push(Attempt { number, sent: now });
        self.last_sent = Some(now);
        self.due = Some(now + self.every);
        number
    }

    fn take(&mut self, number: u64) -> Option<Duration> {
        let index = self
            .in_flight
            .iter()
            .position(|attempt| attempt.number == number)?;
        Some(self.in_flight.swap_remove(index).sent)
    }

    /// Ends an attempt with an answer and returns when it was sent; none if it counts no
    /// more.
    pub(super) fn answered(&mut self, number: u64) -> Option<Duration> {
        let sent = self.take(number)?;
        self.backoff.reset();
        Some(sent)
    }

    /// Ends an attempt without an answer.
    pub(super) fn failed(&mut self, now: Duration, number: u64, again: Again) {
        let Some(sent) = self.take(number) else {
            return;
        };
        let timed_out = sent + self.timeout;
        let again = match again {
            Again::Soon => (now + self.pause()).min(timed_out).max(now),
            Again::AfterTimeout => timed_out.max(now),
            Again::LaterAndLater => now + self.backoff.next(),
        };
        self.due = self.due.map(|due| due.min(again));
    }

    /// The pause before a call that failed early is repeated.
    pub(super) fn pause(&self) -> Duration {
        (self.timeout / 8).min(MAX_PAUSE)
    }
}
