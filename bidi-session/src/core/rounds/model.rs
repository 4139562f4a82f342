//! Rounds against a model that keeps the whole history of each, and counts every answer.

use std::collections::HashMap;

use proptest::prelude::*;

use super::*;

/// What is known of one worker's share in a round.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Share {
    Missing,
    Answered(u64),
    Failed(u64),
}

#[derive(Debug)]
struct Record {
    // In the order of injection: worker, generation, share.
    targets: Vec<(usize, u64, Share)>,
    is_resolved: bool,
}

/// Every round there ever was; times are ms.
#[derive(Debug, Default)]
struct Model {
    records: BTreeMap<u64, Record>,
    is_closed: bool,
}

/// The rounds that are tested, and what their callers keep from one call to the next.
#[derive(Debug)]
struct Tested {
    rounds: Rounds<u64>,
    // Whom the last round asked: the next one may ask the same.
    last: (u32, Arc<Roster>),
    answerers: HashMap<(usize, u64), Answerer>,
}

#[derive(Clone, Copy, Debug)]
enum Step {
    /// Begins the round this much above the last; the bits say who is asked, and of
    /// which generation.
    Begin(u64, u32),
    Answer(u64, usize, u64),
    Fail(usize, u64),
    Progress(u64),
    Expire(u64),
    End(u64),
    Close,
}

type Outcome = Result<Vec<(WorkerId, u64)>, RoundError>;

// ===== impl Model =====

impl Model {
    fn stray(&self, id: u64, worker: usize, generation: u64) -> Option<Stray> {
        let Some(record) = self.records.get(&id) else {
            return Some(Stray::Unknown);
        };
        let target = record.targets.iter().find(|(asked, ..)| *asked == worker);
        let late = record.is_resolved.then_some(Stray::Late);
        match target {
            None => Some(Stray::NotATarget),
            Some((_, asked, _)) if *asked != generation => Some(Stray::OlderGeneration),
            Some((_, _, Share::Answered(_))) => Some(Stray::Duplicate),
            Some((_, _, Share::Failed(_))) => Some(Stray::Late),
            Some((_, _, Share::Missing)) => late,
        }
    }

    fn fail(&mut self, now: u64, worker: usize, generation: u64) -> Vec<u64> {
        let mut touched = Vec::new();
        for (id, record) in &mut self.records {
            for (asked, of, share) in &mut record.targets {
                let is_hit = *asked == worker && *of <= generation && *share == Share::Missing;
                if is_hit && !record.is_resolved {
                    *share = Share::Failed(now);
                    touched.push(*id);
                }
            }
        }
        touched
    }

    fn progress(&mut self, id: u64, now: u64) -> Progress<u64> {
        let is_closed = self.is_closed;
        let Some(record) = self.in_flight(id) else {
            return Progress::Over(Err(RoundError::Closed));
        };
        let is_complete =
            record.count(|share| matches!(share, Share::Answered(_))) == record.targets.len();
        let first = record.first_failure();
        let settled = first.map(|first| first + 20);
        if is_complete {
            return Progress::Over(self.resolve(id));
        }
        if is_closed {
            return Progress::Over(Err(RoundError::Closed));
        }
        match settled {
            None => Progress::Waiting,
            Some(until) if now < until && record.count(|share| share == Share::Missing) > 0 => {
                let until = Duration::from_millis(until);
                Progress::Settling { until }
            }
            Some(_) => Progress::Over(self.resolve(id)),
        }
    }

    fn expire(&mut self, id: u64) -> Outcome {
        let is_closed = self.is_closed;
        match self.in_flight(id) {
            None => Err(RoundError::Closed),
            Some(record) if is_closed && record.count(|share| share == Share::Missing) > 0 => {
                Err(RoundError::Closed)
            }
            Some(_) => self.resolve(id),
        }
    }

    fn resolve(&mut self, id: u64) -> Outcome {
        let Some(record) = self.in_flight(id) else {
            return Err(RoundError::Closed);
        };
        record.is_resolved = true;
        let first = record.first_failure();
        let missing = record.workers(|share| share == Share::Missing);
        if let Some(first) = first {
            // Whoever failed within 20 ms of the first.
            let failed = |share| matches!(share, Share::Failed(at) if at <= first + 20);
            let failures = record.workers(failed).into_iter();
            let failures = failures.map(|worker| (worker, DisconnectReason::Closed));
            let failures = failures.collect();
            return Err(RoundError::Failed { failures });
        }
        if !missing.is_empty() {
            return Err(RoundError::TimedOut { missing });
        }
        let answers = record.targets.iter().filter_map(|(worker, _, share)| {
            let Share::Answered(answer) = share else {
                return None;
            };
            Some((WorkerId::from(*worker), *answer))
        });
        Ok(answers.collect())
    }

    fn in_flight(&mut self, id: u64) -> Option<&mut Record> {
        self.records
            .get_mut(&id)
            .filter(|record| !record.is_resolved)
    }
}

impl Record {
    fn count(&self, is_meant: impl Fn(Share) -> bool) -> usize {
        let shares = self.targets.iter().map(|(_, _, share)| *share);
        shares.filter(|share| is_meant(*share)).count()
    }

    fn workers(&self, is_meant: impl Fn(Share) -> bool) -> Vec<WorkerId> {
        let meant = self.targets.iter().filter(|(_, _, share)| is_meant(*share));
        meant.map(|(worker, ..)| WorkerId::from(*worker)).collect()
    }

    fn first_failure(&self) -> Option<u64> {
        let times = self.targets.iter().filter_map(|(_, _, share)| match share {
            Share::Failed(at) => Some(*at),
            _ => None,
        });
        times.min()
    }
}

/// Reads a step and the ms before it off a number; small numbers are simple, so that a
/// schedule shrinks to a readable one.
fn decode(number: u32, last: u64) -> (Step, u64) {
    let id = last.saturating_sub(u64::from(number >> 4) % 4) + u64::from(number >> 6 & 31 == 31);
    let (worker, generation) = ((number >> 11) as usize % 5, 1 + u64::from(number >> 14) % 2);
    let step = match number % 16 {
        0..3 => Step::Begin(u64::from((number >> 4) % 3), number >> 11),
        3..9 => Step::Answer(id, worker, generation),
        9..11 => Step::Fail(worker, generation),
        11..14 => Step::Progress(id),
        14 if number >> 17 & 3 == 3 => Step::Expire(id),
        14 => Step::Progress(id),
        _ if number >> 17 & 63 == 63 => Step::Close,
        _ if number >> 17 & 3 == 3 => Step::End(id),
        _ => Step::Progress(id),
    };
    (step, u64::from(number >> 24) % 16)
}

/// Says who is asked, of five workers with two bits each; one more bit turns the order
/// around.
fn targets(bits: u32) -> Vec<(usize, u64)> {
    let turn = if bits >> 10 & 1 == 1 { 4 } else { 0 };
    let asked = (0..5_u32).map(|place| place.abs_diff(turn));
    let asked = asked.filter(|worker| bits >> (2 * worker) & 1 == 1);
    let asked = asked.map(|worker| (worker as usize, 1 + u64::from(bits >> (2 * worker + 1) & 1)));
    asked.collect()
}

/// Failures come in the order in which they happened, and the model knows no order.
fn sorted(outcome: Outcome) -> Outcome {
    outcome.map_err(|error| match error {
        RoundError::Failed { mut failures } => {
            failures.sort_by(|one, other| one.0.cmp(&other.0));
            RoundError::Failed { failures }
        }
        other => other,
    })
}

fn sorted_progress(progress: Progress<u64>) -> Progress<u64> {
    match progress {
        Progress::Over(outcome) => Progress::Over(sorted(outcome)),
        other => other,
    }
}

fn begin(tested: &mut Tested, model: &mut Model, id: u64, bits: u32) -> Result<(), TestCaseError> {
    // Every other round asks whom the last one did.
    let bits = if bits >> 11 & 1 == 1 {
        tested.last.0
    } else {
        bits
    };
    let asked = targets(bits);
    if tested.last.0 != bits {
        let named = asked
            .iter()
            .map(|(worker, of)| (WorkerId::from(*worker), *of));
        tested.last = (bits, Arc::new(Roster::new(named.collect())));
    }
    let begun = tested.rounds.begin(id, tested.last.1.clone());
    let last = model.records.keys().next_back().copied();
    let expected = if model.is_closed {
        Err(Unfit::Closed)
    } else {
        match last {
            Some(last) if id <= last => Err(Unfit::Used { last }),
            _ => Ok(()),
        }
    };
    prop_assert_eq!(begun, expected);
    if begun.is_ok() {
        let targets = asked.into_iter();
        let targets = targets
            .map(|(worker, of)| (worker, of, Share::Missing))
            .collect();
        let record = Record {
            targets,
            is_resolved: false,
        };
        model.records.insert(id, record);
    }
    Ok(())
}

/// Gives an answer; returns why it is a stray one.
fn answer(
    tested: &mut Tested,
    model: &mut Model,
    (id, worker, generation): (u64, usize, u64),
    serial: u64,
) -> Result<Option<Stray>, TestCaseError> {
    let expected = model.stray(id, worker, generation);
    let answerer = tested.answerers.entry((worker, generation));
    let by = answerer.or_insert_with(|| Answerer::new(WorkerId::from(worker), generation));
    let taken = tested.rounds.answer(id, by, serial);
    let Some(stray) = expected else {
        let record = model.in_flight(id).expect("it is no stray answer");
        let asked = record
            .targets
            .iter_mut()
            .find(|(asked, ..)| *asked == worker);
        asked.expect("it is a target").2 = Share::Answered(serial);
        let is_last = record.count(|share| share == Share::Missing) == 0;
        prop_assert_eq!(taken, Ok(is_last));
        return Ok(None);
    };
    // It comes back whole, to be counted and dropped.
    prop_assert_eq!(taken, Err((stray, serial)));
    Ok(Some(stray))
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(10_000))]

    #[test]
    fn any_schedule_ends_each_round_once_and_as_the_model_does(
        steps in proptest::collection::vec(any::<u32>(), 0..80),
    ) {
        let mut tested = Tested {
            rounds: Rounds::new(),
            last: (0, Arc::default()),
            answerers: HashMap::new(),
        };
        let mut model = Model::default();
        let (mut now, mut taken, mut strays, mut given) = (0, 0, 0, 0);
        let mut resolved = 0;
        for number in steps {
            let last = model.records.keys().next_back().copied().unwrap_or(0);
            let (step, wait) = decode(number, last);
            now += wait;
            let at = Duration::from_millis(now);
            let open = |model: &Model| model.records.values().filter(|r| !r.is_resolved).count();
            let before = open(&model);
            match step {
                Step::Begin(above, bits) => begin(&mut tested, &mut model, last + above, bits)?,
                Step::Answer(id, worker, generation) => {
                    given += 1;
                    match answer(&mut tested, &mut model, (id, worker, generation), given)? {
                        None => taken += 1,
                        Some(_) => strays += 1,
                    }
                }
                Step::Fail(worker, generation) => {
                    let reason = DisconnectReason::Closed;
                    let hit = tested.rounds.fail(at, &WorkerId::from(worker), generation, &reason);
                    prop_assert_eq!(hit, model.fail(now, worker, generation));
                }
                Step::Progress(id) => {
                    let progress = sorted_progress(tested.rounds.progress(id, at));
                    prop_assert_eq!(progress, sorted_progress(model.progress(id, now)));
                }
                Step::Expire(id) => {
                    prop_assert_eq!(sorted(tested.rounds.expire(id)), sorted(model.expire(id)));
                }
                Step::End(id) => {
                    prop_assert_eq!(sorted(tested.rounds.end(id)), sorted(model.resolve(id)));
                }
                Step::Close => {
                    tested.rounds.close();
                    model.is_closed = true;
                }
            }
            resolved += before.saturating_sub(open(&model));
            prop_assert_eq!(tested.rounds.open.len(), open(&model));
        }
        // Each answer is in its round or was told to be a stray one.
        prop_assert_eq!(taken + strays, given);
        prop_assert_eq!(resolved + tested.rounds.open.len(), model.records.len());
    }
}
