use std::time::Duration;

use proptest::prelude::*;

use super::*;
use crate::config::WatchdogConfig;

const fn ms(ms: u64) -> Duration {
    Duration::from_millis(ms)
}

/// Cancel point 2.5 s, abort point 0.5 s before the deadline.
fn timing() -> Timing {
    WatchdogConfig::default().timing()
}

/// One word of each state.
fn words() -> [Word; 4] {
    let live = Word::live(ms(10_000));
    [live, live.closed(), live.closed().finished(), live.lost()]
}

#[test]
fn every_transition_is_in_this_table() {
    use GuardState::{Closing, Finished, Live, Lost};

    let states = [Live, Closing, Finished, Lost];
    assert_eq!(words().map(Word::state), states);
    type Change = fn(Word) -> Word;
    let table: [(&str, Change, [GuardState; 4]); 8] = [
        ("close", Word::closed, [Closing, Closing, Finished, Lost]),
        ("finish", Word::finished, [Live, Finished, Finished, Lost]),
        ("lose", Word::lost, [Lost, Lost, Finished, Lost]),
        (
            "zero",
            |word| word.extended(ms(0)),
            [Lost, Lost, Finished, Lost],
        ),
        ("extend", |word| word.extended(ms(20_000)), states),
        ("before cancel", |word| word.at(ms(7_499), timing()), states),
        (
            "cancel point",
            |word| word.at(ms(7_500), timing()),
            [Closing, Closing, Finished, Lost],
        ),
        (
            "abort point",
            |word| word.at(ms(9_500), timing()),
            [Lost, Lost, Finished, Lost],
        ),
    ];
    for (name, change, expected) in table {
        assert_eq!(words().map(|word| change(word).state()), expected, "{name}");
    }
}

#[test]
fn only_a_live_guard_may_start_and_only_before_its_cancel_point() {
    let may_start = |now| words().map(|word| word.may_start(now, timing()));
    assert_eq!(
        may_start(ms(7_500) - Duration::from_nanos(1)),
        [true, false, false, false]
    );
    assert_eq!(may_start(ms(7_500)), [false; 4]);
}

#[test]
fn a_closing_guard_may_still_finish_before_its_abort_point() {
    let may_finish = |now| words().map(|word| word.may_finish(now, timing()));
    assert_eq!(
        may_finish(ms(9_500) - Duration::from_nanos(1)),
        [true, true, false, false]
    );
    assert_eq!(may_finish(ms(9_500)), [false; 4]);
}

#[test]
fn an_extension_takes_the_maximum_and_only_of_a_live_guard() {
    let [live, closing, ..] = words();
    assert_eq!(live.extended(ms(9_999)), live);
    assert_eq!(live.extended(ms(10_001)).deadline(), ms(10_001));
    assert_eq!(closing.extended(ms(20_000)), closing);
    assert_eq!(closing.deadline(), ms(10_000));
}

#[test]
fn extreme_deadlines_saturate_and_stay_live() {
    for deadline in [Duration::MAX, Duration::from_nanos(u64::MAX), ms(u64::MAX)] {
        let word = Word::live(deadline);
        assert_eq!(word.state(), GuardState::Live);
        assert!(word.deadline() > Duration::from_secs(9_000_000_000));
        assert!(word.may_start(ms(0), timing()));
    }
    // Below one nanosecond there is nothing: zero is lost.
    assert_eq!(Word::live(ms(0)).state(), GuardState::Lost);
    // Beyond what fits: the latest that does.
    for nanos in [1 << 63, u64::MAX] {
        let word = Word::live(Duration::from_nanos(nanos));
        assert_eq!(word.deadline(), Duration::from_nanos(u64::MAX >> 1));
    }
}

#[derive(Clone, Copy, Debug)]
enum Input {
    Pass(u64),
    Extend(u64),
    Trip,
    Close,
    Finish,
}

fn input() -> impl Strategy<Value = Input> {
    prop_oneof![
        4 => (0_u64..2_000).prop_map(Input::Pass),
        4 => (0_u64..30_000).prop_map(Input::Extend),
        1 => Just(Input::Trip),
        1 => Just(Input::Close),
        1 => Just(Input::Finish),
    ]
}

proptest! {
    /// The driver's order: time first, then the input.
    #[test]
    fn what_is_refused_stays_refused(inputs in proptest::collection::vec(input(), 0..60)) {
        let (mut word, mut now) = (Word::live(ms(10_000)), ms(0));
        // The latest deadline anybody has given: nothing may pass beyond it.
        let mut latest = ms(10_000);
        for input in inputs {
            let before = word.at(now, timing());
            word = match input {
                Input::Pass(time) => {
                    now += ms(time);
                    before
                }
                Input::Extend(time) => {
                    latest = latest.max(ms(time));
                    before.extended(ms(time))
                }
                Input::Trip => before.lost(),
                Input::Close => before.closed(),
                Input::Finish => before.finished(),
            };
            if !before.may_start(now, timing()) {
                prop_assert!(!word.may_start(now, timing()), "revived by {input:?}");
            }
            if !before.may_finish(now, timing()) {
                prop_assert!(!word.may_finish(now, timing()), "revived by {input:?}");
            }
            if word.may_start(now, timing()) {
                prop_assert!(word.may_finish(now, timing()));
                prop_assert!(word.deadline() >= before.deadline(), "shortened by {input:?}");
            }
            prop_assert!(word.deadline() <= latest);
            prop_assert!(!word.may_start(latest - ms(2_500), timing()));
            prop_assert!(!word.may_finish(latest - ms(500), timing()));
        }
    }

    #[test]
    fn time_alone_ends_every_guard_at_the_instants_it_announces(deadline in 3_000_u64..1_000_000) {
        let mut word = Word::live(ms(deadline));
        let mut states = vec![word.state()];
        while let Some(next) = word.next_change(timing()) {
            let just_before = next - Duration::from_nanos(1);
            prop_assert_eq!(word.at(just_before, timing()), word);
            word = word.at(next, timing());
            states.push(word.state());
        }
        prop_assert_eq!(states, [GuardState::Live, GuardState::Closing, GuardState::Lost]);
    }
}
