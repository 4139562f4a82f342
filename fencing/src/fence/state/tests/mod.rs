mod gate;
mod reset;

use std::io;

use proptest::prelude::*;

use super::*;

const PATIENCE: Duration = Duration::from_secs(5);
const NOW: Duration = Duration::from_secs(100);

fn failure() -> StorageError {
    StorageError::new(io::Error::other("disk full"))
}

fn step(state: &mut State, token: u64, progress: &mut Progress) -> Step {
    state.step(&token.into(), progress, NOW, PATIENCE)
}

/// Admits at once or fails the test.
fn admit(state: &mut State, token: u64) {
    match step(state, token, &mut Progress::default()) {
        Step::Admitted => {}
        other => panic!("{token}: {other:?}"),
    }
}

/// Refuses at once or fails the test.
fn refuse(state: &mut State, token: impl Into<Token>) -> String {
    match state.step(&token.into(), &mut Progress::default(), NOW, PATIENCE) {
        Step::Refused(error) => error.to_string(),
        other => panic!("{other:?}"),
    }
}

fn is_waiting(step: &Step) -> bool {
    matches!(step, Step::Wait(_))
}

#[test]
fn a_lower_token_is_stale_from_the_first_step_of_a_higher_one() {
    let mut state = State::durable(Mark::default());
    assert!(is_waiting(&step(&mut state, 9, &mut Progress::default())));
    assert_eq!(
        refuse(&mut state, 8),
        "token 8 is stale: the highest seen is 9"
    );
}

#[test]
fn nothing_is_admitted_before_the_mark_is_saved() {
    let mut state = State::durable(Mark::default());
    let mut progress = Progress::default();
    assert!(is_waiting(&step(&mut state, 9, &mut progress)));
    let mark = state.begin_save().unwrap();
    assert_eq!(mark.number, 9);
    assert!(is_waiting(&step(&mut state, 9, &mut progress)));
    // A second call joins the attempt that runs: no second write follows.
    assert!(is_waiting(&step(&mut state, 9, &mut Progress::default())));
    assert_eq!(state.begin_save(), None);
    state.end_save(Ok(()));
    assert_eq!(state.begin_save(), None);
    assert!(matches!(step(&mut state, 9, &mut progress), Step::Admitted));
    admit(&mut state, 9);
}

#[test]
fn a_failed_save_refuses_all_until_one_succeeds() {
    let mut state = State::durable(Mark::default());
    let mut first = Progress::default();
    assert!(is_waiting(&step(&mut state, 9, &mut first)));
    state.begin_save().unwrap();
    state.end_save(Err(failure()));
    assert!(matches!(
        step(&mut state, 9, &mut first),
        Step::Refused(AdmitError::Storage(_))
    ));
    // Not the old failure again: a new call is a new attempt.
    let mut second = Progress::default();
    assert!(is_waiting(&step(&mut state, 9, &mut second)));
    state.begin_save().unwrap();
    state.end_save(Ok(()));
    assert!(matches!(step(&mut state, 9, &mut second), Step::Admitted));
    assert!(refuse(&mut state, 8).contains("stale"));
}

#[test]
fn a_raise_during_a_save_waits_for_a_save_of_its_own() {
    let mut state = State::durable(Mark::default());
    let (mut nine, mut ten) = (Progress::default(), Progress::default());
    assert!(is_waiting(&step(&mut state, 9, &mut nine)));
    state.begin_save().unwrap();
    assert!(is_waiting(&step(&mut state, 10, &mut ten)));
    // The failure of the attempt for 9 is none of 10's.
    state.end_save(Err(failure()));
    assert!(is_waiting(&step(&mut state, 10, &mut ten)));
    assert!(matches!(
        step(&mut state, 9, &mut nine),
        Step::Refused(AdmitError::Stale(_))
    ));
    assert_eq!(state.begin_save().unwrap().number, 10);
    state.end_save(Ok(()));
    assert!(matches!(step(&mut state, 10, &mut ten), Step::Admitted));
}

#[test]
fn a_higher_token_waits_for_lower_admissions_and_then_says_busy() {
    let mut state = State::forgetful();
    admit(&mut state, 1);
    admit(&mut state, 1);
    let mut progress = Progress::default();
    let token = Token::from(2);
    let until = NOW + PATIENCE;
    let wait = state.step(&token, &mut progress, NOW, PATIENCE);
    assert!(matches!(wait, Step::Wait(Some(at)) if at == until));
    assert!(!state.gate().leave());
    let late = until - Duration::from_nanos(1);
    assert!(is_waiting(&state.step(
        &token,
        &mut progress,
        late,
        PATIENCE
    )));
    let busy = state.step(&token, &mut progress, until, PATIENCE);
    assert!(matches!(
        busy,
        Step::Refused(AdmitError::Busy { lower: 1, .. })
    ));
    // The next call waits again.
    let mut again = Progress::default();
    assert!(is_waiting(&state.step(&token, &mut again, until, PATIENCE)));
    assert!(state.gate().leave());
    assert!(matches!(
        state.step(&token, &mut again, until, PATIENCE),
        Step::Admitted
    ));
}

#[test]
fn the_first_token_decides_the_scope_and_reset_changes_it() {
    let mut state = State::forgetful();
    let first = state.step(
        &Token::scoped("a", 9),
        &mut Progress::default(),
        NOW,
        PATIENCE,
    );
    assert!(matches!(first, Step::Admitted));
    assert!(refuse(&mut state, Token::scoped("b", 10)).contains("reset(\"b\")"));
    assert!(refuse(&mut state, 10).contains("reset(\"\")"));
    state.reset(Scope::new("b"));
    assert!(refuse(&mut state, Token::scoped("a", 11)).contains("reset(\"a\")"));
    // Low again, and still behind the admission from before the reset.
    let token = Token::scoped("b", 1);
    let mut progress = Progress::default();
    assert!(is_waiting(&state.step(
        &token,
        &mut progress,
        NOW,
        PATIENCE
    )));
    assert!(state.gate().leave());
    assert!(matches!(
        state.step(&token, &mut progress, NOW, PATIENCE),
        Step::Admitted
    ));
}

#[test]
fn an_invalid_token_changes_nothing() {
    let mut state = State::forgetful();
    assert!(refuse(&mut state, 0).contains("invalid"));
    assert!(refuse(&mut state, Token::scoped("s".repeat(129), 1)).contains("invalid"));
    assert_eq!(*state.mark(), Mark::default());
}

#[test]
fn a_reset_must_be_saved_before_anything_is_admitted() {
    let mut state = State::durable(Mark::default());
    assert!(is_waiting(&step(&mut state, 9, &mut Progress::default())));
    state.begin_save().unwrap();
    state.reset(Scope::new(""));
    // The save of the old era ends: it is none of the new one.
    state.end_save(Ok(()));
    let mut reset = Progress::default();
    assert!(!state.save(&mut reset).unwrap());
    assert_eq!(state.begin_save().unwrap().number, 0);
    state.end_save(Ok(()));
    assert!(state.save(&mut reset).unwrap());
}

#[derive(Clone, Copy, Debug)]
enum Input {
    /// A call presents this token for the first time.
    Call(u64),
    /// A call comes in without asking the state.
    Enter(u64),
    /// A call is stepped again.
    Step(usize),
    /// A call is dropped.
    Forget(usize),
    /// An effect is done.
    Release(usize),
    BeginSave,
    EndSave(bool),
    /// The process is killed and starts again; a running save may have landed.
    Crash(bool),
    Pass,
}

fn input() -> impl Strategy<Value = Input> {
    prop_oneof![
        5 => (1_u64..6).prop_map(Input::Call),
        2 => (1_u64..6).prop_map(Input::Enter),
        6 => (0_usize..8).prop_map(Input::Step),
        1 => (0_usize..8).prop_map(Input::Forget),
        4 => (0_usize..8).prop_map(Input::Release),
        4 => Just(Input::BeginSave),
        4 => proptest::bool::weighted(0.8).prop_map(Input::EndSave),
        1 => any::<bool>().prop_map(Input::Crash),
        1 => Just(Input::Pass),
    ]
}

/// The world around a durable fence.
struct World {
    state: State,
    now: Duration,
    calls: Vec<(u64, Progress)>,
    /// Effects under way.
    effects: Vec<u64>,
    /// What is on disk, and what is being written.
    disk: Mark,
    writing: Option<Mark>,
    /// The highest token that was ever admitted.
    admitted: u64,
}

impl World {
    fn new() -> Self {
        Self {
            state: State::durable(Mark::default()),
            now: NOW,
            calls: Vec::new(),
            effects: Vec::new(),
            disk: Mark::default(),
            writing: None,
            admitted: 0,
        }
    }

    fn apply(&mut self, input: Input) -> Result<(), TestCaseError> {
        match input {
            Input::Call(token) => {
                self.calls.push((token, Progress::default()));
                self.step(self.calls.len() - 1)?;
            }
            Input::Enter(token) => {
                if self.state.gate().enter("", token).is_ok() {
                    self.admitted(token)?;
                }
            }
            Input::Step(call) if call < self.calls.len() => self.step(call)?,
            Input::Forget(call) if call < self.calls.len() => drop(self.calls.remove(call)),
            Input::Release(effect) if effect < self.effects.len() => {
                let token = self.effects.remove(effect);
                let is_awaited = token < self.state.mark().number;
                let is_last = self.state.gate().leave();
                prop_assert_eq!(is_last, is_awaited && self.effects.is_empty());
            }
            Input::BeginSave => {
                let begun = self.state.begin_save();
                prop_assert!(
                    begun.is_none() || self.writing.is_none(),
                    "two saves at once"
                );
                self.writing = begun.or(self.writing.take());
            }
            Input::EndSave(is_ok) => {
                if let Some(mark) = self.writing.take() {
                    if is_ok {
                        self.disk = mark;
                    }
                    self.state
                        .end_save(if is_ok { Ok(()) } else { Err(failure()) });
                }
            }
            Input::Crash(has_landed) => {
                if let (Some(mark), true) = (self.writing.take(), has_landed) {
                    self.disk = mark;
                }
                self.calls.clear();
                self.effects.clear();
                self.state = State::durable(self.disk.clone());
            }
            Input::Pass => self.now += PATIENCE,
            Input::Step(_) | Input::Forget(_) | Input::Release(_) => {}
        }
        prop_assert!(
            self.disk.number >= self.admitted,
            "an admitted token is forgotten"
        );
        Ok(())
    }

    fn step(&mut self, call: usize) -> Result<(), TestCaseError> {
        let (token, progress) = &mut self.calls[call];
        let token = *token;
        let step = self.state.step(&token.into(), progress, self.now, PATIENCE);
        match step {
            Step::Wait(_) => return Ok(()),
            Step::Admitted => self.admitted(token)?,
            Step::Refused(AdmitError::Stale(stale)) => {
                prop_assert!(stale.highest > token);
                prop_assert_eq!(stale.highest, self.state.mark().number);
            }
            Step::Refused(_) => {}
        }
        self.calls.remove(call);
        Ok(())
    }

    fn admitted(&mut self, token: u64) -> Result<(), TestCaseError> {
        prop_assert!(token >= self.admitted, "{token} after {}", self.admitted);
        let lower = self.effects.iter().find(|&&effect| effect < token);
        prop_assert!(lower.is_none(), "{lower:?} lives while {token} starts");
        self.admitted = token;
        self.effects.push(token);
        Ok(())
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(10_000))]

    /// F08 in the core: no schedule of calls, saves, failures and crashes admits a
    /// token below one that was admitted before, or beside an effect of a lower one.
    #[test]
    fn no_schedule_admits_a_lower_token(inputs in proptest::collection::vec(input(), 0..40)) {
        let mut world = World::new();
        for input in inputs {
            world.apply(input)?;
        }
    }

}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(1_000))]

    /// The other half: a patient highest token is always admitted in the end.
    #[test]
    fn no_schedule_locks_the_highest_token_out(inputs in proptest::collection::vec(input(), 0..40)) {
        let mut world = World::new();
        for input in inputs {
            world.apply(input)?;
        }
        world.apply(Input::EndSave(true))?;
        while !world.effects.is_empty() {
            world.apply(Input::Release(0))?;
        }
        let mut progress = Progress::default();
        for _ in 0..3 {
            match step(&mut world.state, 6, &mut progress) {
                Step::Admitted => return Ok(()),
                Step::Wait(_) => {}
                Step::Refused(error) => panic!("{error}"),
            }
            if world.state.begin_save().is_some() {
                world.state.end_save(Ok(()));
            }
        }
        prop_assert!(false, "6 is not admitted");
    }
}
