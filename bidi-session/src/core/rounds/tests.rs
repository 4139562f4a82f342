use super::*;

fn at(millis: u64) -> Duration {
    Duration::from_millis(millis)
}

fn name(worker: usize) -> WorkerId {
    WorkerId::from(worker)
}

fn roster(targets: impl IntoIterator<Item = (usize, u64)>) -> Arc<Roster> {
    let members = targets.into_iter();
    let members = members.map(|(worker, generation)| (name(worker), generation));
    Arc::new(Roster::new(members.collect()))
}

fn by(worker: usize, generation: u64) -> Answerer {
    Answerer::new(name(worker), generation)
}

fn rounds(id: u64, workers: usize) -> Rounds<u64> {
    let mut rounds = Rounds::new();
    let targets = (0..workers).map(|worker| (worker, 1));
    rounds.begin(id, roster(targets)).unwrap();
    rounds
}

#[test]
fn an_id_is_used_once_and_rises() {
    let mut rounds = rounds(5, 0);
    assert_eq!(rounds.begin(5, roster([])), Err(Unfit::Used { last: 5 }));
    assert_eq!(rounds.begin(4, roster([])), Err(Unfit::Used { last: 5 }));
    rounds.begin(u64::MAX, roster([])).unwrap();
    let last = u64::MAX;
    assert_eq!(rounds.check(u64::MAX), Err(Unfit::Used { last }));
    rounds.close();
    assert_eq!(rounds.check(u64::MAX), Err(Unfit::Closed));
}

#[test]
fn zero_is_an_id_like_any_other() {
    let mut rounds = rounds(0, 1);
    assert_eq!(rounds.answer(0, &mut by(0, 1), 7), Ok(true));
    let answers = vec![(name(0), 7)];
    assert_eq!(rounds.progress(0, at(0)), Progress::Over(Ok(answers)));
}

#[test]
fn a_failure_of_an_older_session_does_not_touch_a_newer_one() {
    let mut rounds = Rounds::<u64>::new();
    rounds.begin(1, roster([(0, 4)])).unwrap();
    let reason = DisconnectReason::Closed;
    assert_eq!(rounds.fail(at(0), &name(0), 3, &reason), [0; 0]);
    assert_eq!(rounds.fail(at(0), &name(0), 4, &reason), [1]);
    // Once is enough.
    assert_eq!(rounds.fail(at(0), &name(0), 4, &reason), [0; 0]);
}

#[test]
fn a_failure_settles_for_20_ms_and_takes_answers_meanwhile() {
    let mut rounds = rounds(1, 3);
    let reason = DisconnectReason::Closed;
    assert_eq!(rounds.fail(at(10), &name(0), 1, &reason), [1]);
    let until = at(30);
    assert_eq!(rounds.progress(1, at(29)), Progress::Settling { until });
    assert_eq!(rounds.answer(1, &mut by(1, 1), 0), Ok(false));
    assert_eq!(
        rounds.answer(1, &mut by(1, 1), 0),
        Err((Stray::Duplicate, 0))
    );
    assert_eq!(rounds.answer(1, &mut by(0, 1), 0), Err((Stray::Late, 0)));
    let failures = vec![(name(0), reason)];
    let failed = Err(RoundError::Failed { failures });
    assert_eq!(rounds.progress(1, at(30)), Progress::Over(failed));
    assert_eq!(rounds.answer(1, &mut by(2, 1), 0), Err((Stray::Late, 0)));
}

#[test]
fn strays_are_told_apart_after_the_end() {
    let mut rounds = rounds(3, 2);
    assert_eq!(rounds.answer(3, &mut by(0, 1), 0), Ok(false));
    assert!(rounds.end(3).is_err());
    rounds.begin(6, roster([])).unwrap();
    let cases = [
        (3, 0, 1, Stray::Duplicate),
        (3, 1, 1, Stray::Late),
        (3, 1, 2, Stray::OlderGeneration),
        (3, 2, 1, Stray::NotATarget),
        (4, 0, 1, Stray::Unknown),
        (5, 0, 1, Stray::Unknown),
        (7, 0, 1, Stray::Unknown),
        (2, 0, 1, Stray::Unknown),
    ];
    for (id, worker, generation, stray) in cases {
        let told = rounds.answer(id, &mut by(worker, generation), 9);
        assert_eq!(told, Err((stray, 9)), "{id} {worker} {generation}");
    }
}

#[test]
fn what_is_remembered_of_ended_rounds_is_bounded() {
    let mut rounds = Rounds::<()>::new();
    // Every other id: each is a range of its own.
    for id in (0..10_000).step_by(2) {
        rounds.begin(id, roster([(0, 1)])).unwrap();
        let _ = rounds.end(id);
    }
    assert_eq!(rounds.history.sizes(), (1_024, 1_024, 1_024));
    let stray = |id| rounds.history.classify(id, &mut by(1, 1));
    assert_eq!(stray(9_998), Stray::NotATarget);
    assert_eq!(stray(9_997), Stray::Unknown);
    // Long ago: only that it was injected, and not even the gaps.
    assert_eq!((stray(0), stray(1)), (Stray::Late, Stray::Late));
    assert_eq!(stray(10_000), Stray::Unknown);
    let many = (0..70_000).map(|worker| (worker, 1));
    rounds.begin(20_000, roster(many)).unwrap();
    let _ = rounds.end(20_000);
    assert_eq!(rounds.history.sizes(), (1, 70_000, 1_024));
}
