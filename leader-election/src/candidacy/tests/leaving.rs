//! How a place is given back, and for how long.

use super::*;

/// When an attempt to leave was sent, and its limit.
type Try = (Duration, Duration);
/// What else was to be done, and when.
type Told = (Duration, Action);

/// Lets every attempt to leave fail, until the core is over or this time has come; returns
/// when each was sent and what was told meanwhile.
fn nobody_answers(
    core: &mut Candidacy,
    mut now: Duration,
    until: Duration,
    mut actions: Vec<Action>,
) -> (Vec<Try>, Vec<Told>) {
    let (mut tries, mut told) = (Vec::new(), Vec::new());
    loop {
        let mut left = None;
        for action in actions.drain(..) {
            match action {
                Action::Leave { limit } => left = Some(limit),
                Action::Renew { .. } => panic!("renewed while it leaves"),
                Action::StopCalls => {}
                other => told.push((now, other)),
            }
        }
        if let Some(limit) = left {
            tries.push((now, limit));
            let (call, error) = (Call::Leave, None);
            actions = core.step(now, Input::Failed { call, error });
        } else if core.is_over() || now >= until {
            return (tries, told);
        } else {
            now = core.next_wake().expect("it goes on");
            actions = core.step(now, Input::Tick);
        }
    }
}

#[test]
fn a_resigned_leader_is_told_at_the_deadline_and_its_place_is_given_back_beyond_it() {
    let mut core = candidate();
    lead(&mut core, at(0.0));
    let actions = core.step(at(1.0), Input::Ended);
    let (tries, told) = nobody_answers(&mut core, at(1.0), at(60.0), actions);
    let before = tries.iter().filter(|(sent, _)| *sent < at(9.99));
    assert!(before.clone().count() > 2);
    assert!(
        before
            .clone()
            .all(|(sent, limit)| *sent + *limit <= at(9.99))
    );
    let [(told_at, Action::Tell(Resigned::AlreadyOver))] = told[..] else {
        panic!("{told:?}");
    };
    assert_eq!(told_at, at(9.99));
    assert!(tries.last().is_some_and(|(sent, _)| *sent > at(58.0)));
    let actions = core.step(at(61.0), Input::Left);
    assert!(has(&actions, |one| matches!(one, Action::Done(_))));
    assert!(core.is_over());
}

#[test]
fn a_lost_place_is_given_back_until_the_store_confirms_it() {
    let mut core = candidate();
    lead(&mut core, at(0.0));
    let actions = core.step(at(10.0), Input::Tick);
    let (tries, _) = nobody_answers(&mut core, at(10.0), at(600.0), actions);
    let gaps: Vec<_> = tries.windows(2).map(|pair| pair[1].0 - pair[0].0).collect();
    // A store that is back is told within a second, and not asked too often.
    assert!(gaps.iter().all(|gap| *gap <= at(1.0) - at(0.0)), "{gaps:?}");
    assert!(tries.len() < 1300, "{} tries in ten minutes", tries.len());
    core.step(at(600.1), Input::Left);
    assert!(core.is_over());
}

#[test]
fn giving_a_lost_place_back_is_bounded() {
    let mut core = candidate();
    lead(&mut core, at(0.0));
    let actions = core.step(at(10.0), Input::Tick);
    let day = at(24.0 * 3600.0);
    let (tries, told) = nobody_answers(&mut core, at(10.0), day, actions);
    assert!(core.is_over());
    assert!(
        matches!(told.last(), Some((_, Action::Done(_)))),
        "{told:?}"
    );
    assert_eq!(told.last().map(|(at, _)| *at), Some(at(3610.0)));
    assert!(tries.last().is_some_and(|(sent, _)| *sent > at(3600.0)));
}

#[test]
fn a_place_that_the_store_has_named_gone_is_not_given_back() {
    let mut core = candidate();
    lead(&mut core, at(0.0));
    let actions = core.step(at(1.0), Input::Waited(Standing::Gone(EARLIER)));
    assert!(matches!(
        actions[..],
        [Action::End(_), Action::Done(Resigned::AlreadyOver)]
    ));
}

/// Callers that campaign again and again, while the store is away, pile up no tasks.
#[test]
fn a_place_that_the_store_has_never_named_is_given_back_for_one_lease() {
    let mut core = candidate();
    core.step(at(0.0), Input::Start);
    let actions = core.step(at(0.5), Input::Withdrawn);
    nobody_answers(&mut core, at(0.5), at(600.0), actions);
    assert!(core.is_over());
    assert!(core.step(at(10.0), Input::Tick).is_empty());
}

#[test]
fn a_refusal_ends_the_giving_back() {
    let mut core = candidate();
    lead(&mut core, at(0.0));
    core.step(at(10.0), Input::Tick);
    let error = Some(Error::new(ErrorKind::Denied, "wrong password"));
    let call = Call::Leave;
    let actions = core.step(at(10.1), Input::Failed { call, error });
    assert!(has(&actions, |one| matches!(one, Action::Done(_))));
}

#[test]
fn a_place_is_left_for_as_long_as_its_last_renewal_may_hold_it() {
    let mut core = candidate();
    queued(&mut core, at(0.0));
    assert_eq!(renewals(&core.step(at(4.0), Input::Tick)).len(), 1);
    let actions = core.step(at(5.0), Input::Withdrawn);
    let (_, told) = nobody_answers(&mut core, at(5.0), at(60.0), actions);
    let (told_at, _) = told.first().expect("it is told that it is over");
    assert_eq!(*told_at, at(14.0));
}
