//! What a reset leaves behind.

use super::*;

fn scope(text: &str) -> Scope {
    Token::scoped(text, 1).shared_scope().clone()
}

fn save(state: &mut State) -> Mark {
    let mark = state.begin_save().unwrap();
    state.end_save(Ok(()));
    mark
}

#[test]
fn a_reset_closes_the_gate_and_an_equal_number_is_another_term() {
    let mut state = State::durable(Mark::default());
    assert!(is_waiting(&step(&mut state, 9, &mut Progress::default())));
    save(&mut state);
    admit(&mut state, 9);
    state.gate().leave();
    state.reset(scope("b"));
    assert!(!state.gate().is_open(), "nobody gets past the state");
    let (token, mut progress) = (Token::scoped("b", 9), Progress::default());
    let mut step = |state: &mut State| state.step(&token, &mut progress, NOW, PATIENCE);
    // Its number was saved before, in another scope: that is no mark of this one.
    assert!(is_waiting(&step(&mut state)));
    assert_eq!(save(&mut state).number, 9);
    assert!(matches!(step(&mut state), Step::Admitted));
}

#[test]
fn a_fence_in_memory_has_nothing_to_save_after_a_reset() {
    let mut state = State::forgetful();
    admit(&mut state, 9);
    state.reset(scope("b"));
    assert!(state.save(&mut Progress::default()).unwrap());
}

#[test]
fn a_reset_that_another_one_overtakes_asks_for_a_save_of_its_own() {
    let mut state = State::durable(Mark::default());
    state.reset(scope("b"));
    let mut first = Progress::default();
    assert!(!state.save(&mut first).unwrap());
    state.begin_save().unwrap();
    // By one who gives up before he asks for anything.
    state.reset(scope("c"));
    state.end_save(Ok(()));
    assert!(!state.save(&mut first).unwrap());
    assert!(state.wants_save(), "it would wait for ever");
    save(&mut state);
    assert!(state.save(&mut first).unwrap());
}
