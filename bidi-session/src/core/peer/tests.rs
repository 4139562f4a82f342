use super::*;
use crate::connector::Failure;

const PACE: Pace = Pace {
    backoff_base: Duration::from_millis(100),
    backoff_cap: Duration::from_secs(5),
    blocked_retry: Duration::from_secs(10),
    stable_after: Duration::from_secs(5),
};

fn at(millis: u64) -> Duration {
    Duration::from_millis(millis)
}

fn begun(generation: u64) -> Input {
    Input::Begun { generation }
}

fn opened(generation: u64) -> Input {
    let incarnation = None;
    Input::Opened {
        generation,
        incarnation,
    }
}

fn failed(generation: u64, class: OpenClass) -> Input {
    let error = OpenError::new(class, "refused");
    Input::Failed { generation, error }
}

fn ended(generation: u64) -> Input {
    let reason = DisconnectReason::Failed(Failure::new("cut"));
    Input::Ended { generation, reason }
}

/// A peer that is up since `now` with generation 1.
fn up(now: Duration) -> Peer {
    let mut peer = Peer::new(PACE, 7, now);
    assert_eq!(peer.step::<()>(now, begun(1)), []);
    assert_eq!(peer.step::<()>(now, opened(1)).len(), 1);
    peer
}

fn rests_until(peer: &Peer) -> Duration {
    match peer.stage() {
        Stage::Resting { until, .. } => until,
        stage => panic!("{stage:?}"),
    }
}

#[test]
fn the_first_attempt_is_due_at_once() {
    assert_eq!(rests_until(&Peer::new(PACE, 7, at(30))), at(30));
}

#[test]
fn a_word_before_each_of_several_brief_ends_is_no_health() {
    let mut peer = Peer::new(PACE, 7, at(0));
    let (mut now, mut generation) = (at(0), 0);
    // (lives ms, rests between): the spacing of attempts counts from their beginning.
    let cases = [
        (10, 90, 90),
        (10, 90, 100),
        (10, 100, 200),
        (10, 200, 400),
        // Long enough: forgiven, though it had failed thrice.
        (1000, 0, 0),
        (999, 0, 0),
        (999, 50, 100),
    ];
    for (lives, least, most) in cases {
        generation += 1;
        peer.step::<()>(now, begun(generation));
        peer.step::<()>(now, opened(generation));
        assert!(peer.hear(generation, 1));
        now += at(lives);
        peer.step::<()>(now, ended(generation));
        let rest = rests_until(&peer) - now;
        assert!(
            rest >= at(least) && rest <= at(most),
            "{generation}: {rest:?}"
        );
        now += rest;
    }
    // Moved elsewhere it starts anew.
    peer.step::<()>(now, Input::Replaced);
    peer.step::<()>(now + at(100), begun(8));
    peer.step::<()>(now + at(100), opened(8));
    peer.hear(8, 1);
    peer.step::<()>(now + at(200), ended(8));
    assert_eq!(rests_until(&peer), now + at(200));
}

#[test]
fn a_session_proves_health_by_a_message_or_by_its_age() {
    // (hears a message, ends after ms, rests between)
    let cases = [
        (true, 500, 0, 0),
        (true, 10, 90, 90),
        (false, 5000, 0, 0),
        (false, 4999, 50, 100),
    ];
    for (hears, life, least, most) in cases {
        let mut peer = up(at(0));
        if hears {
            assert!(peer.hear(1, 1));
        }
        let told = peer.step::<()>(at(life), ended(1));
        assert!(matches!(told[..], [(1, EventKind::Disconnected { .. })]));
        let rest = rests_until(&peer) - at(life);
        assert!(
            rest >= at(least) && rest <= at(most),
            "{hears} {life}: {rest:?}"
        );
    }
}

#[test]
fn refusals_rest_10_s_and_a_higher_term_is_told_as_such() {
    for class in [OpenClass::Refused, OpenClass::HigherTerm(9)] {
        let mut peer = Peer::new(PACE, 7, at(0));
        let _ = peer.step::<()>(at(0), begun(1));
        let told = peer.step::<()>(at(3), failed(1, class));
        let is_higher = told == [(1, EventKind::HigherTerm { term: 9 })];
        assert_eq!(is_higher, class == OpenClass::HigherTerm(9));
        assert_eq!(rests_until(&peer), at(10_003));
    }
}

#[test]
fn what_is_known_of_a_worker_follows_its_steps() {
    let mut peer = Peer::new(PACE, 7, at(0));
    assert!(!peer.is_live(0) && !peer.is_live(1));
    peer.step::<()>(at(0), begun(1));
    assert!(peer.is_live(1) && !peer.is_live(2));
    assert_eq!(peer.phase(), Phase::Connecting);
    assert_eq!(peer.state(at(5)).retry_in, None);
    peer.step::<()>(at(10), failed(1, OpenClass::Unreachable));
    assert!(!peer.is_live(1));
    assert_eq!((peer.phase(), peer.failures()), (Phase::Waiting, 1));
    let state = peer.state(at(20));
    assert_eq!((state.attempts, state.elapsed), (1, at(20)));
    assert_eq!(state.retry_in, Some(rests_until(&peer) - at(20)));
    // A policy of the user's sets the next pause.
    peer.offer_delay(Some(at(3000)));
    peer.step::<()>(at(300), begun(2));
    peer.step::<()>(at(310), failed(2, OpenClass::Unreachable));
    assert_eq!((rests_until(&peer), peer.failures()), (at(3310), 2));
    peer.step::<()>(at(3310), begun(3));
    peer.step::<()>(at(3320), opened(3));
    assert!(peer.is_live(3) && !peer.is_live(2));
    assert_eq!(peer.phase(), Phase::Up);
    assert_eq!(peer.state(at(3330)).retry_in, None);
}

#[test]
fn a_replacement_forgets_the_failures() {
    let mut peer = Peer::new(PACE, 7, at(0));
    let mut now = at(0);
    for generation in 1..10 {
        let _ = peer.step::<()>(now, begun(generation));
        let _ = peer.step::<()>(now, failed(generation, OpenClass::Unreachable));
        now = rests_until(&peer);
    }
    assert_eq!(peer.step::<()>(now, Input::Replaced), []);
    assert_eq!((rests_until(&peer), peer.state(now).attempts), (now, 0));
    assert_eq!(peer.state(now).last_error, None);
}

#[test]
fn inputs_of_another_generation_change_nothing_and_are_counted() {
    let mut peer = up(at(0));
    let before = peer.stage();
    for input in [begun(2), opened(1), opened(2), ended(0), ended(2)] {
        assert_eq!(peer.step::<()>(at(1), input), []);
    }
    assert!(!peer.hear(2, 3));
    assert_eq!((peer.stage(), peer.session()), (before, Some(1)));
    assert_eq!((peer.take_stale_inputs(), peer.take_stale_inputs()), (8, 0));
}

#[test]
fn removal_is_told_once_and_last() {
    let mut peer = up(at(0));
    let removed = || Input::Removed(DisconnectReason::Removed);
    let told = peer.step::<()>(at(1), removed());
    let reason = DisconnectReason::Removed;
    let expected = [
        (1, EventKind::Disconnected { reason }),
        (1, EventKind::Removed),
    ];
    assert_eq!(told, expected);
    for input in [removed(), Input::Replaced, begun(5), opened(1), ended(1)] {
        assert_eq!(peer.step::<()>(at(2), input), []);
    }
    assert!(!peer.hear(1, 1));
}
