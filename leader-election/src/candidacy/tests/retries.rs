//! How often a call that fails is repeated.

use super::*;

#[test]
fn long_leases_make_for_no_long_pauses() {
    let mut core = candidate_with(ElectionConfig::for_ttl(Duration::from_secs(24 * 3600)));
    let mut now = at(0.0);
    core.step(now, Input::Start);
    for failures in 0..10 {
        let (call, error) = (Call::Join, None);
        core.step(now, Input::Failed { call, error });
        let wake = core.next_wake().expect("it tries again");
        assert!(wake - now <= at(1.0) - at(0.0), "after {failures}");
        now = wake;
        core.step(now, Input::Tick);
    }
    core.renewals.start(now);
    let attempt = core.renewals.send(now);
    core.renewals.failed(now, attempt, Again::Soon);
    assert!(
        core.renewals
            .next_due()
            .is_some_and(|due| due <= now + at(0.5) - at(0.0))
    );
}

/// How often renewals are sent within so many seconds in which each fails at once.
fn failing(core: &mut Candidacy, seconds: f64) -> Vec<Duration> {
    let mut sent = Vec::new();
    let mut now = core.next_wake().expect("renewals are due");
    while now < at(seconds) {
        for attempt in renewals(&core.step(now, Input::Tick)) {
            sent.push(now);
            let error = None;
            core.step(now, Input::RenewalFailed { attempt, error });
        }
        now = core.next_wake().expect("it goes on");
    }
    sent
}

#[test]
fn who_waits_renews_after_longer_and_longer_pauses_but_within_its_period() {
    let config = ElectionConfig::for_ttl(TTL);
    let every = config.renew_every;
    let mut core = candidate_with(config.clone());
    queued(&mut core, at(0.0));
    let sent = failing(&mut core, 60.0);
    let pauses: Vec<_> = sent.windows(2).map(|pair| pair[1] - pair[0]).collect();
    assert!(sent.len() < 30, "{} renewals in a minute", sent.len());
    assert!(pauses[0] <= at(0.1) - at(0.0), "{pauses:?}");
    assert!(pauses.iter().all(|pause| *pause <= every), "{pauses:?}");

    // Confirmed once, it begins anew.
    let attempt = renewals(&core.step(at(63.0), Input::Tick))[0];
    core.step(at(63.0), confirmed(attempt));
    let again = failing(&mut core, 80.0);
    assert!(again[1] - again[0] <= at(0.1) - at(0.0), "{again:?}");
}

#[test]
fn a_leader_does_not_back_off_before_its_deadline() {
    let mut core = candidate();
    lead(&mut core, at(0.0));
    let sent = failing(&mut core, 9.9);
    assert!(sent.len() > 25, "{} renewals", sent.len());
}

/// Each try may cost the store the check of a password.
#[test]
fn a_leader_that_is_refused_asks_again_no_sooner_than_if_it_had_timed_out() {
    let config = ElectionConfig::for_ttl(TTL);
    let timeout = config.renew_timeout;
    let mut core = candidate_with(config);
    lead(&mut core, at(0.0));
    let refusal = || Some(Error::new(ErrorKind::Denied, "wrong password"));
    let (mut sent, mut waits) = (Vec::new(), vec![at(0.0)]);
    let (call, error) = (Call::Wait, refusal());
    core.step(at(0.0), Input::Failed { call, error });
    let mut now = at(0.0);
    while now < at(9.9) {
        for action in core.step(now, Input::Tick) {
            match action {
                Action::Renew { attempt, .. } => {
                    sent.push(now);
                    let error = refusal();
                    core.step(now, Input::RenewalFailed { attempt, error });
                }
                Action::Wait { .. } => {
                    waits.push(now);
                    let (call, error) = (Call::Wait, refusal());
                    core.step(now, Input::Failed { call, error });
                }
                other => panic!("{other:?}"),
            }
        }
        now = core.next_wake().expect("it goes on");
    }
    for tries in [sent, waits] {
        let pauses: Vec<_> = tries.windows(2).map(|pair| pair[1] - pair[0]).collect();
        assert!(pauses.len() >= 3, "{pauses:?}");
        assert!(pauses.iter().all(|pause| *pause >= timeout), "{pauses:?}");
    }
}
