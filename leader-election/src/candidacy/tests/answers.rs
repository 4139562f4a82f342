//! What each answer brings about, and when it is asked again.

use super::*;

/// Steps at each time that the core asks for, until it does what is wanted; returns when.
fn woken_until(core: &mut Candidacy, now: Duration, wanted: impl Fn(&Action) -> bool) -> Duration {
    let mut last = now;
    for _ in 0..100 {
        let wake = core.next_wake().expect("it goes on");
        assert!(wake > last, "it would be woken for ever");
        last = wake;
        if has(&core.step(wake, Input::Tick), &wanted) {
            return wake;
        }
    }
    panic!("it never does");
}

#[test]
fn a_watch_that_ends_without_news_is_opened_anew_after_a_pause() {
    type Begin = fn(&mut Candidacy, Duration);
    let cases: [(Begin, Standing); 3] = [
        (lead, Standing::First),
        (lead, Standing::Queued),
        (queued, Standing::Queued),
    ];
    for (number, (begin, standing)) in cases.into_iter().enumerate() {
        let mut core = candidate();
        begin(&mut core, at(0.0));
        let actions = core.step(at(1.0), Input::Waited(standing));
        assert!(actions.is_empty(), "case {number}: {actions:?}");
        let is_wait = |action: &Action| matches!(action, Action::Wait { .. });
        let again = woken_until(&mut core, at(1.0), is_wait);
        assert!(again < at(2.0), "case {number}: {again:?}");
    }
}

#[test]
fn a_question_without_an_answer_is_asked_again() {
    let mut core = candidate();
    core.step(at(0.0), Input::Start);
    core.step(at(0.0), Input::Joined { ttl: TTL });
    let (call, error) = (Call::Verify, None);
    let actions = core.step(at(1.0), Input::Failed { call, error });
    assert!(actions.is_empty(), "{actions:?}");
    let is_verify = |action: &Action| matches!(action, Action::Verify { .. });
    assert!(woken_until(&mut core, at(1.0), is_verify) < at(2.0));
}

#[test]
fn who_lost_one_place_after_another_joins_after_a_pause() {
    let mut core = candidate();
    let is_join = |action: &Action| matches!(action, Action::Join { .. });
    queued(&mut core, at(0.0));
    let mut now = at(1.0);
    for losses in 0..3 {
        let actions = core.step(now, Input::Waited(Standing::Gone(EARLIER)));
        let joins_now = has(&actions, is_join);
        // The first place may have been lost by chance.
        assert!(losses == 0 || !joins_now, "{actions:?}");
        if !joins_now {
            now = woken_until(&mut core, now, is_join);
        }
        core.step(now, Input::Joined { ttl: TTL });
        core.step(now, Input::Verified(Standing::Queued));
    }
}

#[test]
fn a_renewal_that_finds_the_place_gone_ends_the_leadership() {
    let mut core = candidate();
    lead(&mut core, at(0.0));
    let attempt = renewals(&core.step(at(4.0), Input::Tick))[0];
    let answer = Renewal::Gone(EARLIER);
    let actions = core.step(at(4.1), Input::Renewed { attempt, answer });
    assert!(has(
        &actions,
        |action| matches!(action, Action::End(loss) if *loss == EARLIER)
    ));
    assert!(core.is_over());
}

/// How a leadership ends whose renewals are all withheld but for the first, which fails.
fn ended_without_progress(first_fails: bool) -> Loss {
    let mut core = candidate();
    lead(&mut core, at(0.0));
    let mut fails = first_fails;
    loop {
        let wake = core.next_wake().expect("it goes on");
        for action in core.step(wake, Input::Tick) {
            match action {
                Action::Renew { attempt, .. } if fails => {
                    fails = false;
                    let error = None;
                    core.step(wake, Input::RenewalFailed { attempt, error });
                }
                Action::Renew { attempt, .. } => {
                    core.step(wake, Input::Withheld { attempt });
                }
                Action::End(loss) => return loss,
                _ => {}
            }
        }
    }
}

#[test]
fn a_leader_is_stalled_only_where_no_renewal_has_failed() {
    assert_eq!(ended_without_progress(false), Loss::Stalled);
    assert_eq!(ended_without_progress(true), Loss::Expired);
}

#[test]
fn who_withdraws_before_anything_was_sent_is_done_at_once() {
    let mut core = candidate();
    let actions = core.step(at(0.0), Input::Withdrawn);
    let is_done = |action: &Action| matches!(action, Action::Done(Resigned::AlreadyOver));
    assert!(has(&actions, is_done), "{actions:?}");

    let mut core = candidate();
    queued(&mut core, at(0.0));
    for _ in 0..2 {
        core.step(at(1.0), Input::Waited(Standing::Gone(EARLIER)));
        core.step(at(1.0), Input::Joined { ttl: TTL });
        core.step(at(1.0), Input::Verified(Standing::Queued));
    }
    core.step(at(2.0), Input::Waited(Standing::Gone(EARLIER)));
    let actions = core.step(at(2.0), Input::Withdrawn);
    assert!(has(&actions, is_done), "{actions:?}");
}
