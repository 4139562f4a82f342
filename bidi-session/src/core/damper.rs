//! How often a worker is worth a line in the log.
//!
//! A worker that is away or flapping gets a line a minute on average. What happens for
//! the first time is told at once, on credit: later lines wait until it is paid back, but
//! for the state that a worker has settled in. That is told within a minute, so that the
//! log never ends with what is no longer so.

use std::time::Duration;

/// Between lines of one worker, and how long it must be calm for new credit.
const PAUSE: Duration = Duration::from_secs(60);

/// What can be told of a worker.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Class {
    /// A session began.
    Began,
    /// A session ended.
    Ended,
    /// The worker could not be reached.
    Unreachable,
    /// Something refused.
    Refused,
    /// The worker has seen a higher term.
    HigherTerm,
    /// The connector panicked in an attempt.
    AttemptPanicked,
    /// The connector panicked in a session, whose end is told as well.
    SessionPanicked,
}

/// Decides which happenings of one worker are told.
#[derive(Debug, Default)]
pub(crate) struct Damper {
    // All credit is paid back from here on.
    due: Duration,
    // When the last line was written.
    told_at: Duration,
    // Whether there is a session, and since when that is so.
    is_up: bool,
    changed: Duration,
    // When the last thing happened, told or not.
    last: Duration,
    // One bit for each class that was told since the worker was calm.
    told: u8,
    quiet: Quiet,
}

/// What has happened since the last line, this time included.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Quiet {
    pub(crate) attempts_failed: u64,
    pub(crate) sessions_ended: u64,
    // Whether something was kept from the log.
    is_owed: bool,
}

// ===== impl Class =====

impl Class {
    fn bit(self) -> u8 {
        1 << self as u8
    }
}

// ===== impl Damper =====

impl Damper {
    /// Notes what happened; returns what a line shall say, if one is due.
    pub(crate) fn note(&mut self, now: Duration, class: Class) -> Option<Quiet> {
        let is_due = now >= self.due_at();
        let is_up = matches!(class, Class::Began | Class::SessionPanicked);
        if is_up != self.is_up {
            self.is_up = is_up;
            self.changed = now;
        }
        match class {
            Class::Began | Class::SessionPanicked => {}
            Class::Ended => self.quiet.sessions_ended += 1,
            Class::Unreachable | Class::Refused | Class::HigherTerm | Class::AttemptPanicked => {
                self.quiet.attempts_failed += 1;
            }
        }
        if now >= self.due && now.saturating_sub(self.last) >= PAUSE {
            self.told = 0;
        }
        self.last = now;
        if !is_due && self.told & class.bit() != 0 {
            self.quiet.is_owed = true;
            return None;
        }
        self.told |= class.bit();
        Some(self.tell(now))
    }

    /// Returns when something that was kept from the log may be told, if anything was.
    pub(crate) fn owed_at(&self) -> Option<Duration> {
        self.quiet.is_owed.then(|| self.due_at())
    }

    /// Takes what was kept from the log, once it may be told.
    pub(crate) fn pay(&mut self, now: Duration) -> Option<Quiet> {
        let is_payable = self.quiet.is_owed && now >= self.due_at();
        is_payable.then(|| self.tell(now))
    }

    /// A line a minute is no more than the average, whatever credit is open: so is one
    /// about a state that has lasted for a minute.
    fn due_at(&self) -> Duration {
        self.due.min(self.changed.max(self.told_at) + PAUSE)
    }

    fn tell(&mut self, now: Duration) -> Quiet {
        self.due = self.due.max(now) + PAUSE;
        self.told_at = now;
        std::mem::take(&mut self.quiet)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const DAY: Duration = Duration::from_secs(24 * 3600);
    const CLASSES: [Class; 7] = [
        Class::Began,
        Class::Ended,
        Class::Unreachable,
        Class::Refused,
        Class::HigherTerm,
        Class::AttemptPanicked,
        Class::SessionPanicked,
    ];

    fn after(seconds: u64) -> Duration {
        Duration::from_secs(seconds)
    }

    /// Repeats happenings, one each `step`, for a day; returns lines and what they count.
    fn lines_of_a_day(step: Duration, classes: &[Class]) -> (u64, u64) {
        let mut damper = Damper::default();
        let (mut lines, mut counted) = (0, 0);
        let mut now = Duration::ZERO;
        for class in classes.iter().cycle() {
            if now > DAY {
                break;
            }
            if let Some(quiet) = damper.note(now, *class) {
                lines += 1;
                counted += quiet.attempts_failed + quiet.sessions_ended;
            }
            now += step;
        }
        (lines, counted)
    }

    #[test]
    fn a_worker_away_for_a_day_is_1441_lines() {
        let step = Duration::from_millis(3750);
        let (lines, counted) = lines_of_a_day(step, &[Class::Unreachable]);
        assert_eq!(lines, 1441);
        // Each failed attempt is counted in some line.
        assert!(counted >= 24 * 3600 * 1000 / 3750 - 16, "{counted}");
    }

    #[test]
    fn a_worker_that_flaps_or_fails_in_turn_is_no_more() {
        for step in [100, 1000, 5000, 10_000, 59_999, 60_000] {
            let step = Duration::from_millis(step);
            for classes in [&CLASSES[..2], &CLASSES[2..5], &CLASSES[..3], &CLASSES[..]] {
                let (lines, _) = lines_of_a_day(step, classes);
                // One a minute, and each kind once at once.
                let most = 1440 + classes.len() as u64;
                assert!(lines <= most, "{lines} lines, {classes:?} each {step:?}");
            }
        }
    }

    #[test]
    fn each_class_is_told_at_once_the_first_time_and_then_counted() {
        let mut damper = Damper::default();
        assert!(damper.note(after(0), Class::Began).is_some());
        assert!(damper.note(after(1), Class::Ended).is_some());
        assert!(damper.note(after(2), Class::Unreachable).is_some());
        for second in 3..62 {
            assert_eq!(damper.note(after(second), Class::Unreachable), None);
        }
        let told = damper.note(after(62), Class::Unreachable).unwrap();
        assert_eq!((told.attempts_failed, told.sessions_ended), (60, 0));
        assert!(damper.note(after(63), Class::Refused).is_some());
        // Ends of sessions are counted too, until the next line.
        let mut damper = Damper::default();
        for second in 0..3 {
            damper.note(after(second), Class::Began);
            damper.note(after(second), Class::Ended);
        }
        let told = damper.pay(after(600)).unwrap();
        assert_eq!((told.attempts_failed, told.sessions_ended), (0, 2));
    }

    #[test]
    fn a_calm_minute_gives_new_credit_once_the_old_is_paid_back() {
        let mut damper = Damper::default();
        for class in [Class::Began, Class::Ended, Class::Began] {
            damper.note(after(0), class);
        }
        // Two lines: paid back at 120 s, had the session not lasted for a minute.
        assert_eq!(damper.note(after(59), Class::Ended), None);
        assert_eq!(damper.note(after(60), Class::Began), None);
        assert_eq!(damper.note(after(119), Class::Ended), None);
        assert!(damper.note(after(240), Class::Ended).is_some());
        assert!(damper.note(after(240), Class::Began).is_some());
    }

    #[test]
    fn the_state_that_a_worker_settles_in_is_told_within_a_minute() {
        let mut damper = Damper::default();
        // All the credit is spent, and more is owed than a few minutes pay back.
        for class in &CLASSES[..6] {
            assert!(damper.note(after(0), *class).is_some());
        }
        assert_eq!(damper.note(after(5), Class::Began), None);
        assert_eq!(damper.owed_at(), Some(after(65)));
        assert!(damper.pay(after(65)).is_some());
        // Away from here on: a line a minute.
        assert_eq!(damper.note(after(70), Class::Ended), None);
        let mut lines = 0;
        for second in 71..1270 {
            lines += u32::from(damper.note(after(second), Class::Unreachable).is_some());
        }
        assert_eq!(lines, 19);
    }

    #[test]
    fn what_was_kept_from_the_log_is_owed_until_it_is_told() {
        let mut damper = Damper::default();
        damper.note(after(0), Class::Began);
        assert_eq!(damper.owed_at(), None);
        assert_eq!(damper.note(after(1), Class::Began), None);
        assert_eq!(damper.owed_at(), Some(after(60)));
        assert_eq!(damper.pay(after(59)), None);
        assert!(damper.pay(after(60)).is_some());
        assert_eq!((damper.owed_at(), damper.pay(after(600))), (None, None));
    }

    proptest! {
        #[test]
        fn lines_are_one_a_minute_and_the_credit_of_each_class(
            steps in proptest::collection::vec((0_u64..200_000, 0_usize..7, any::<bool>()), 1..400)
        ) {
            let mut damper = Damper::default();
            let (mut now, mut lines) = (0, 0);
            for (millis, class, pays) in steps {
                now += millis;
                let at = Duration::from_millis(now);
                lines += u64::from(damper.note(at, CLASSES[class]).is_some());
                lines += u64::from(pays && damper.pay(at).is_some());
                prop_assert!(lines <= now / 60_000 + 7, "{} lines in {} ms", lines, now);
            }
        }
    }
}
