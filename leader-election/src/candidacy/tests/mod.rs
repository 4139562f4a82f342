//! One rule of the protocol each.

mod answers;
mod leaving;
mod retries;

use super::*;
use crate::{ElectionConfig, ErrorKind};

const TTL: Duration = Duration::from_secs(10);
const EARLIER: Loss = Loss::Removed;

fn at(seconds: f64) -> Duration {
    Duration::from_secs(100) + Duration::from_secs_f64(seconds)
}

fn candidate() -> Candidacy {
    candidate_with(ElectionConfig::for_ttl(TTL))
}

fn candidate_with(config: ElectionConfig) -> Candidacy {
    Candidacy::new(config.timing(), 7)
}

/// The numbers of the renewals that are sent.
fn renewals(actions: &[Action]) -> Vec<u64> {
    let number = |action: &Action| match action {
        Action::Renew { attempt, .. } => Some(*attempt),
        _ => None,
    };
    actions.iter().filter_map(number).collect()
}

fn has(actions: &[Action], wanted: impl Fn(&Action) -> bool) -> bool {
    actions.iter().any(wanted)
}

fn confirmed(attempt: u64) -> Input {
    Input::Renewed {
        attempt,
        answer: Renewal::Confirmed(TTL),
    }
}

/// Brings a candidate to where the win is known; returns the renewal sent.
fn win(core: &mut Candidacy, now: Duration) -> u64 {
    core.step(now, Input::Start);
    core.step(now, Input::Joined { ttl: TTL });
    let actions = core.step(now, Input::Verified(Standing::First));
    renewals(&actions)[0]
}

/// Brings a candidate to wait behind another.
fn queued(core: &mut Candidacy, now: Duration) {
    core.step(now, Input::Start);
    core.step(now, Input::Joined { ttl: TTL });
    core.step(now, Input::Verified(Standing::Queued));
}

/// Brings a candidate to lead with the deadline `now + 9.99 s`.
fn lead(core: &mut Candidacy, now: Duration) {
    let attempt = win(core, now);
    let actions = core.step(now, confirmed(attempt));
    assert!(has(
        &actions,
        |action| matches!(action, Action::Announce(d) if *d == now + TTL - TTL / 1000)
    ));
}

#[test]
fn deadline_counts_from_send_not_from_reply() {
    let mut core = candidate();
    let attempt = win(&mut core, at(0.0));
    let actions = core.step(at(1.5), confirmed(attempt));
    assert!(has(
        &actions,
        |action| matches!(action, Action::Announce(d) if *d == at(9.99))
    ));

    let attempt = renewals(&core.step(at(4.0), Input::Tick))[0];
    let actions = core.step(at(5.5), confirmed(attempt));
    assert!(has(
        &actions,
        |action| matches!(action, Action::Extend(d) if *d == at(13.99))
    ));
}

#[test]
fn the_end_of_the_lease_is_a_time_to_wake_at() {
    let mut core = candidate();
    lead(&mut core, at(0.0));
    loop {
        let wake = core.next_wake().unwrap();
        let actions = core.step(wake, Input::Tick);
        if has(&actions, |action| matches!(action, Action::End(_))) {
            assert_eq!(wake, at(9.99));
            break;
        }
    }
}

#[test]
fn a_win_needs_a_renewal_that_was_sent_after_it() {
    let mut core = candidate();
    queued(&mut core, at(0.0));
    let before = renewals(&core.step(at(4.0), Input::Tick))[0];
    core.step(at(4.0), Input::Waited(Standing::First));
    let after = renewals(&core.step(at(4.0), Input::Verified(Standing::First)))[0];
    let actions = core.step(at(4.1), confirmed(before));
    assert!(!has(&actions, |action| matches!(
        action,
        Action::Announce(_)
    )));
    let actions = core.step(at(4.1), confirmed(after));
    assert!(has(&actions, |action| matches!(
        action,
        Action::Announce(_)
    )));
}

#[test]
fn a_notice_of_being_first_is_verified_before_it_counts() {
    let mut core = candidate();
    queued(&mut core, at(0.0));
    let actions = core.step(at(1.0), Input::Waited(Standing::First));
    assert!(
        matches!(actions[..], [Action::Verify { .. }]),
        "{actions:?}"
    );
    let actions = core.step(at(1.0), Input::Verified(Standing::Queued));
    assert!(matches!(actions[..], [Action::Wait { .. }]), "{actions:?}");
}

#[test]
fn a_place_lost_before_the_win_means_joining_again() {
    type Path = fn(&mut Candidacy) -> Vec<Action>;
    let paths: [Path; 4] = [
        |core| core.step(at(0.0), Input::Verified(Standing::Gone(EARLIER))),
        |core| {
            core.step(at(0.0), Input::Verified(Standing::Queued));
            core.step(at(1.0), Input::Waited(Standing::Gone(EARLIER)))
        },
        |core| {
            core.step(at(0.0), Input::Verified(Standing::Queued));
            let attempt = renewals(&core.step(at(4.0), Input::Tick))[0];
            let answer = Renewal::Gone(EARLIER);
            core.step(at(4.0), Input::Renewed { attempt, answer })
        },
        |core| {
            let attempt = renewals(&core.step(at(0.0), Input::Verified(Standing::First)))[0];
            let answer = Renewal::Gone(EARLIER);
            core.step(at(0.1), Input::Renewed { attempt, answer })
        },
    ];
    for (number, path) in paths.into_iter().enumerate() {
        let mut core = candidate();
        core.step(at(0.0), Input::Start);
        core.step(at(0.0), Input::Joined { ttl: TTL });
        let actions = path(&mut core);
        let again = [
            has(&actions, |action| matches!(action, Action::Requeue(_))),
            has(&actions, |action| matches!(action, Action::Join { .. })),
        ];
        assert_eq!(again, [true, true], "path {number}: {actions:?}");
    }
}

#[test]
fn a_confirmation_at_the_deadline_is_too_late() {
    for late in [9.99, 10.0, 3600.0] {
        let mut core = candidate();
        lead(&mut core, at(0.0));
        let attempt = renewals(&core.step(at(9.0), Input::Tick))[0];
        let actions = core.step(at(late), confirmed(attempt));
        assert!(matches!(
            actions[..],
            [
                Action::End(Loss::Expired),
                Action::Tell(Resigned::AlreadyOver),
                Action::StopCalls,
                Action::Leave { .. }
            ]
        ));
        assert!(!core.is_leading());
    }
}

#[test]
fn an_older_confirmation_does_not_lower_the_deadline() {
    let mut core = candidate();
    lead(&mut core, at(0.0));
    let older = renewals(&core.step(at(3.4), Input::Tick))[0];
    let newer = renewals(&core.step(at(6.8), Input::Tick))[0];
    let actions = core.step(at(7.0), confirmed(newer));
    assert!(has(
        &actions,
        |action| matches!(action, Action::Extend(d) if *d == at(16.79))
    ));
    let actions = core.step(at(7.1), confirmed(older));
    assert!(!has(&actions, |action| matches!(action, Action::Extend(_))));
}

#[test]
fn a_confirmation_of_no_time_at_all_extends_nothing() {
    let mut core = candidate();
    lead(&mut core, at(0.0));
    let attempt = renewals(&core.step(at(4.0), Input::Tick))[0];
    let answer = Renewal::Confirmed(Duration::ZERO);
    let actions = core.step(at(4.0), Input::Renewed { attempt, answer });
    assert!(!has(&actions, |action| matches!(action, Action::Extend(_))));
    assert!(core.is_leading());
}

#[test]
fn a_slow_renewal_does_not_delay_the_next_and_none_pile_up() {
    let config = ElectionConfig::for_ttl(TTL)
        .with_renew_every(Duration::from_millis(100))
        .with_renew_timeout(Duration::from_secs(3));
    let mut core = candidate_with(config);
    lead(&mut core, at(0.0));
    let sent: Vec<u64> = (1..100)
        .flat_map(|tick| renewals(&core.step(at(f64::from(tick) * 0.02), Input::Tick)))
        .collect();
    assert_eq!(sent.len(), 4, "bounded, and not one after the other");
}

#[test]
fn two_full_attempts_fit_after_a_lost_one() {
    let config = ElectionConfig::for_ttl(TTL);
    let (timeout, reserve) = (config.renew_timeout, config.reserve);
    let mut core = candidate_with(config);
    lead(&mut core, at(0.0));
    let mut now = core.next_wake().unwrap();
    let mut actions = core.step(now, Input::Tick);
    let mut ends = Vec::new();
    while ends.len() < 2 {
        let attempt = renewals(&actions)[0];
        now += timeout;
        ends.push(now);
        let error = None;
        actions = core.step(now, Input::RenewalFailed { attempt, error });
    }
    assert!(ends[1] + reserve <= at(9.99), "{ends:?}");
}

#[test]
fn no_attempt_runs_past_the_deadline() {
    let mut core = candidate();
    lead(&mut core, at(0.0));
    let actions = core.step(at(9.5), Input::Tick);
    let limit = actions.iter().find_map(|action| match action {
        Action::Renew { limit, .. } => Some(*limit),
        _ => None,
    });
    assert_eq!(limit, Some(Duration::from_millis(490)));
}

#[test]
fn a_refusal_ends_a_campaign_but_not_a_leadership() {
    let denied = || Some(Error::new(ErrorKind::Denied, "wrong password"));
    let mut core = candidate();
    core.step(at(0.0), Input::Start);
    let (call, error) = (Call::Join, denied());
    let actions = core.step(at(0.1), Input::Failed { call, error });
    assert!(has(&actions, |action| matches!(action, Action::Fail(_))));

    let mut core = candidate();
    lead(&mut core, at(0.0));
    let attempt = renewals(&core.step(at(4.0), Input::Tick))[0];
    let error = denied();
    core.step(at(4.1), Input::RenewalFailed { attempt, error });
    assert!(core.is_leading());
}

#[test]
fn a_lease_shorter_than_the_settings_allow_is_refused_and_given_back() {
    let mut core = candidate();
    core.step(at(0.0), Input::Start);
    let ttl = Duration::from_secs(5);
    let actions = core.step(at(0.0), Input::Joined { ttl });
    let kind = actions.iter().find_map(|action| match action {
        Action::Fail(error) => Some(error.kind()),
        _ => None,
    });
    assert_eq!(kind, Some(ErrorKind::Invalid));
    assert!(has(&actions, |action| matches!(
        action,
        Action::Leave { .. }
    )));
}

#[test]
fn a_takeover_waits_and_still_hands_out_a_fresh_lease() {
    let delay = Duration::from_secs(15);
    let config = ElectionConfig::for_ttl(TTL).with_takeover_delay(delay);
    let least = config.reserve + config.renew_timeout;
    let mut core = candidate_with(config);
    queued(&mut core, at(0.0));
    core.step(at(1.0), Input::Waited(Standing::First));
    let mut actions = core.step(at(1.0), Input::Verified(Standing::First));
    let mut now = at(1.0);
    let announced = loop {
        for attempt in renewals(&actions) {
            actions.extend(core.step(now, confirmed(attempt)));
        }
        if let Some(Action::Announce(deadline)) = actions
            .iter()
            .find(|action| matches!(action, Action::Announce(_)))
        {
            break *deadline;
        }
        now = core.next_wake().unwrap();
        actions = core.step(now, Input::Tick);
    };
    assert_eq!(now, at(16.0));
    assert!(announced >= now + least);
}

#[test]
fn a_takeover_is_announced_only_with_a_renewal_from_after_its_delay() {
    let config = ElectionConfig::for_ttl(TTL).with_takeover_delay(Duration::from_secs(1));
    let mut core = candidate_with(config);
    queued(&mut core, at(0.0));
    core.step(at(0.0), Input::Waited(Standing::First));
    let won = renewals(&core.step(at(0.0), Input::Verified(Standing::First)))[0];
    core.step(at(0.0), confirmed(won));
    let announces = |actions: &[Action]| has(actions, |one| matches!(one, Action::Announce(_)));
    // The place may have gone meanwhile.
    let actions = core.step(at(1.0), Input::Tick);
    assert!(!announces(&actions));
    let attempt = renewals(&actions)[0];
    assert!(announces(&core.step(at(1.1), confirmed(attempt))));
}

#[test]
fn a_place_granted_to_an_earlier_attempt_is_renewed_by_that_ones_time() {
    let config = ElectionConfig::for_ttl(TTL);
    let every = config.renew_every;
    let mut core = candidate_with(config);
    core.step(at(0.0), Input::Start);
    let (call, error) = (Call::Join, None);
    core.step(at(3.0), Input::Failed { call, error });
    core.step(at(3.2), Input::Joined { ttl: TTL });
    core.step(at(3.2), Input::Verified(Standing::Queued));
    assert_eq!(core.next_wake(), Some(at(0.0) + every));
}

#[test]
fn a_candidate_that_withdraws_leaves_a_place_nobody_has_named_yet() {
    let mut core = candidate();
    core.step(at(0.0), Input::Start);
    let actions = core.step(at(0.0), Input::Withdrawn);
    assert!(
        matches!(actions[..], [Action::StopCalls, Action::Leave { .. }]),
        "{actions:?}"
    );
}
