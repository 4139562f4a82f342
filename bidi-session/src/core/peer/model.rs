//! The state machine against a model that was written from its documentation: what may
//! be told at each moment, and within which bounds the next attempt lies.

use proptest::prelude::*;

use super::*;
use crate::connector::Failure;

const PACE: Pace = Pace {
    backoff_base: Duration::from_millis(100),
    backoff_cap: Duration::from_secs(5),
    blocked_retry: Duration::from_secs(10),
    stable_after: Duration::from_secs(5),
};

/// What is to be told, without texts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Told {
    Failed,
    Higher,
    Connected,
    Disconnected,
    Removed,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Place {
    /// The next attempt is due between these two.
    Resting {
        least: u64,
        most: u64,
        is_blocked: bool,
    },
    Dialing,
    Up {
        has_spoken: bool,
    },
    Gone,
}

/// Times are ms.
#[derive(Debug)]
struct Model {
    place: Place,
    since: u64,
    newest: u64,
    failures: u32,
    was_brief: bool,
    dialed: Option<u64>,
    stale: u64,
}

/// One thing that happens, to which generation, after how many ms.
#[derive(Clone, Debug)]
enum Step {
    Begun,
    Opened,
    Failed(OpenClass),
    Ended,
    Heard(usize),
    Replaced,
    Removed,
}

// ===== impl Model =====

impl Model {
    fn new() -> Self {
        Self {
            place: Place::Resting {
                least: 0,
                most: 0,
                is_blocked: false,
            },
            since: 0,
            newest: 0,
            failures: 0,
            was_brief: false,
            dialed: None,
            stale: 0,
        }
    }

    fn is_own(&self, generation: u64) -> bool {
        generation == self.newest
    }

    fn enter(&mut self, now: u64, place: Place) {
        let was_up = matches!(self.place, Place::Up { .. });
        let is_lasting = matches!(place, Place::Up { .. } | Place::Gone);
        if was_up || is_lasting {
            self.since = now;
        }
        self.place = place;
    }

    fn rest(&mut self, now: u64, delay: (u64, u64), is_blocked: bool) {
        let earliest = self.dialed.map_or(0, |at| at + 100);
        let place = Place::Resting {
            least: (now + delay.0).max(earliest),
            most: (now + delay.1).max(earliest),
            is_blocked,
        };
        self.enter(now, place);
    }

    /// One more failure: half of the doubled delay to the whole.
    fn fail(&mut self) -> (u64, u64) {
        let whole = (100 << self.failures.min(10)).min(5000);
        self.failures += 1;
        (whole / 2, whole)
    }

    /// The delay after a session that lived so long.
    fn end(&mut self, lived: u64, has_spoken: bool) -> (u64, u64) {
        let is_healthy = match (has_spoken, self.was_brief) {
            (true, true) => lived >= 1000,
            (true, false) => true,
            (false, _) => lived >= 5000,
        };
        self.was_brief = lived < 1000;
        if !is_healthy {
            return self.fail();
        }
        self.failures = 0;
        (0, 0)
    }

    fn step(&mut self, now: u64, generation: u64, step: &Step) -> Vec<Told> {
        match (self.place, step) {
            (Place::Resting { .. }, Step::Begun) if generation > self.newest => {
                self.newest = generation;
                self.dialed = Some(now);
                self.enter(now, Place::Dialing);
                vec![]
            }
            (Place::Dialing, Step::Opened) if self.is_own(generation) => {
                self.enter(now, Place::Up { has_spoken: false });
                vec![Told::Connected]
            }
            (Place::Dialing, Step::Failed(class)) if self.is_own(generation) => {
                let delay = self.fail();
                let is_blocked = matches!(class, OpenClass::Refused | OpenClass::HigherTerm(_));
                let delay = if is_blocked { (10_000, 10_000) } else { delay };
                self.rest(now, delay, is_blocked);
                let is_higher = matches!(class, OpenClass::HigherTerm(_));
                vec![if is_higher {
                    Told::Higher
                } else {
                    Told::Failed
                }]
            }
            (Place::Up { has_spoken }, Step::Ended) if self.is_own(generation) => {
                let delay = self.end(now - self.since, has_spoken);
                self.rest(now, delay, false);
                vec![Told::Disconnected]
            }
            (Place::Up { has_spoken }, Step::Heard(count)) if self.is_own(generation) => {
                let has_spoken = has_spoken || *count > 0;
                self.place = Place::Up { has_spoken };
                vec![]
            }
            (Place::Gone, Step::Replaced | Step::Removed) => vec![],
            (place, Step::Replaced) => {
                self.failures = 0;
                self.was_brief = false;
                self.rest(now, (0, 0), false);
                self.lose(place)
            }
            (place, Step::Removed) => {
                self.enter(now, Place::Gone);
                let mut told = self.lose(place);
                told.push(Told::Removed);
                told
            }
            (_, Step::Heard(count)) => {
                self.stale += *count as u64;
                vec![]
            }
            _ => {
                self.stale += 1;
                vec![]
            }
        }
    }

    fn lose(&self, place: Place) -> Vec<Told> {
        match place {
            Place::Up { .. } => vec![Told::Disconnected],
            _ => vec![],
        }
    }
}

// ===== The machine under test =====

fn apply(peer: &mut Peer, now: Duration, generation: u64, step: &Step) -> Vec<(u64, Told)> {
    let input = match step {
        Step::Begun => Input::Begun { generation },
        Step::Opened => Input::Opened {
            generation,
            incarnation: None,
        },
        Step::Failed(class) => Input::Failed {
            generation,
            error: OpenError::new(*class, "refused"),
        },
        Step::Ended => Input::Ended {
            generation,
            reason: DisconnectReason::Failed(Failure::new("cut")),
        },
        Step::Heard(count) => {
            peer.hear(generation, *count);
            return Vec::new();
        }
        Step::Replaced => Input::Replaced,
        Step::Removed => Input::Removed(DisconnectReason::Removed),
    };
    let told = peer.step::<()>(now, input).into_iter();
    told.map(|(generation, kind)| (generation, told_of(&kind)))
        .collect()
}

fn told_of(kind: &EventKind<()>) -> Told {
    match kind {
        EventKind::AttemptFailed { .. } => Told::Failed,
        EventKind::HigherTerm { .. } => Told::Higher,
        EventKind::Connected { .. } => Told::Connected,
        EventKind::Disconnected { .. } => Told::Disconnected,
        EventKind::Removed => Told::Removed,
        EventKind::Message(()) => unreachable!("messages are not the machine's"),
    }
}

fn check_place(peer: &Peer, model: &Model, now: u64) -> Result<(), TestCaseError> {
    let is_same = match (peer.stage(), model.place) {
        (
            Stage::Resting { until, is_blocked },
            Place::Resting {
                least,
                most,
                is_blocked: expected,
            },
        ) => {
            let is_due = until >= Duration::from_millis(least);
            is_due && until <= Duration::from_millis(most) && is_blocked == expected
        }
        (Stage::Dialing, Place::Dialing) | (Stage::Gone, Place::Gone) => true,
        (Stage::Up { has_spoken }, Place::Up { has_spoken: spoke }) => has_spoken == spoke,
        _ => false,
    };
    prop_assert!(is_same, "{:?} is not {:?}", peer.stage(), model);
    let state = peer.state(Duration::from_millis(now));
    prop_assert_eq!(state.attempts, model.failures);
    prop_assert_eq!(state.generation, model.newest);
    prop_assert_eq!(state.elapsed, Duration::from_millis(now - model.since));
    let session = matches!(model.place, Place::Up { .. }).then_some(model.newest);
    prop_assert_eq!(state.session(), session);
    prop_assert_eq!(peer.session(), session);
    Ok(())
}

/// Accepts `(AttemptFailed* Connected Message* Disconnected)* AttemptFailed* Removed?`.
#[derive(Debug, Default)]
struct Grammar {
    session: Option<u64>,
    last: u64,
    is_over: bool,
}

impl Grammar {
    fn check(&mut self, generation: u64, told: Told) -> Result<(), TestCaseError> {
        prop_assert!(!self.is_over, "an event after Removed");
        match told {
            Told::Connected => {
                prop_assert!(self.session.is_none() && generation > self.last);
                self.session = Some(generation);
            }
            Told::Disconnected => prop_assert_eq!(self.session.take(), Some(generation)),
            Told::Failed | Told::Higher => {
                prop_assert!(self.session.is_none() && generation > self.last);
            }
            Told::Removed => {
                prop_assert!(self.session.is_none());
                self.is_over = true;
            }
        }
        self.last = self.last.max(generation);
        Ok(())
    }
}

/// Reads what happens, how old its generation is, and the ms before it off a number;
/// small numbers are simple, so that a schedule shrinks to a readable one.
fn decode(number: u32) -> (Step, u64, u64) {
    let step = match number % 32 {
        0..6 => Step::Begun,
        6..13 => Step::Opened,
        13..17 => Step::Failed(OpenClass::Unreachable),
        17 => Step::Failed(OpenClass::Refused),
        18 => Step::Failed(OpenClass::TermTaken),
        19..21 => Step::Failed(OpenClass::HigherTerm(3)),
        21..26 => Step::Ended,
        26..29 => Step::Heard((number % 32 - 26) as usize),
        29..31 => Step::Replaced,
        _ if number.is_multiple_of(7) => Step::Removed,
        _ => Step::Begun,
    };
    let age = u64::from((number >> 5) % 16).saturating_sub(13);
    // Half of the waits are short: brief sessions follow each other.
    let most = if number >> 31 == 0 { 700 } else { 7_000 };
    (step, age, u64::from((number >> 9) % most))
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(10_000))]

    #[test]
    fn any_schedule_tells_what_the_model_tells(
        steps in proptest::collection::vec(any::<u32>(), 0..60),
        seed: u64,
    ) {
        let mut peer = Peer::new(PACE, seed, Duration::ZERO);
        let (mut model, mut grammar) = (Model::new(), Grammar::default());
        let (mut now, mut newest) = (0, 0);
        for (step, age, wait) in steps.into_iter().map(decode) {
            now += wait;
            if matches!(step, Step::Begun) {
                newest += 1;
            }
            let generation = u64::saturating_sub(newest, age);
            let expected = model.step(now, generation, &step);
            let at = Duration::from_millis(now);
            let told = apply(&mut peer, at, generation, &step);
            let kinds: Vec<Told> = told.iter().map(|(_, told)| *told).collect();
            prop_assert_eq!(kinds, expected);
            for (generation, told) in told {
                grammar.check(generation, told)?;
            }
            check_place(&peer, &model, now)?;
        }
        prop_assert_eq!(peer.take_stale_inputs(), model.stale);
    }
}
