use super::*;

fn gate() -> Gate {
    Gate::new("w1".to_owned(), 40, 0)
}

fn hello(term: u64, pool: u128, generation: u64) -> Hello {
    Hello {
        scope: String::new(),
        term,
        pool,
        generation,
        worker: "w1".to_owned(),
        incarnation: None,
    }
}

fn admitted(offer: Offer) -> Ticket {
    match offer {
        Offer::Admitted(ticket) => ticket,
        other => panic!("not admitted: {other:?}"),
    }
}

fn next(offer: Offer) -> Ticket {
    match offer {
        Offer::Next(ticket) => ticket,
        other => panic!("not next: {other:?}"),
    }
}

#[test]
fn what_is_meant_for_another_is_refused_and_changes_nothing() {
    let mut gate = gate();
    let mut other = hello(9, 1, 1);
    other.scope = "elsewhere".to_owned();
    assert_eq!(gate.offer(&other), Offer::Refused(Refusal::WrongScope));
    let mut other = hello(9, 1, 1);
    other.worker = "w2".to_owned();
    let refusal = Refusal::WrongWorker {
        actual: "w1".to_owned(),
    };
    assert_eq!(gate.offer(&other), Offer::Refused(refusal));
    let mut other = hello(9, 1, 1);
    other.incarnation = Some(41);
    let refusal = Refusal::WrongIncarnation { actual: 40 };
    assert_eq!(gate.offer(&other), Offer::Refused(refusal));
    assert_eq!(gate.highest(), 0);
    let mut expected = hello(1, 1, 1);
    expected.incarnation = Some(40);
    admitted(gate.offer(&expected));
}

#[test]
fn a_lower_term_is_refused_also_after_the_higher_one_left() {
    let mut gate = gate();
    let ticket = admitted(gate.offer(&hello(5, 1, 1)));
    let refused = Offer::Refused(Refusal::LowerTerm { highest: 5 });
    assert_eq!(gate.offer(&hello(4, 2, 9)), refused);
    gate.leave(ticket);
    assert_eq!(gate.offer(&hello(4, 2, 9)), refused);
    let mut restarted = Gate::new("w1".to_owned(), 41, 5);
    assert_eq!(restarted.offer(&hello(4, 2, 9)), refused);
    admitted(restarted.offer(&hello(5, 1, 2)));
}

#[test]
fn a_generation_must_be_above_the_highest_of_its_pool_and_term() {
    let mut gate = gate();
    let first = admitted(gate.offer(&hello(5, 1, 7)));
    gate.leave(first);
    for stale in [7, 6] {
        let refused = Offer::Refused(Refusal::StaleGeneration);
        assert_eq!(gate.offer(&hello(5, 1, stale)), refused);
    }
    let other = admitted(gate.offer(&hello(5, 2, 1)));
    gate.leave(other);
    assert_eq!(
        gate.offer(&hello(5, 1, 7)),
        Offer::Refused(Refusal::StaleGeneration)
    );
    // A new term begins anew.
    admitted(gate.offer(&hello(6, 1, 1)));
}

#[test]
fn a_higher_generation_or_term_waits_for_the_holder_to_leave() {
    for newer in [hello(5, 1, 2), hello(6, 2, 1)] {
        let mut gate = gate();
        let holder = admitted(gate.offer(&hello(5, 1, 1)));
        let ticket = next(gate.offer(&newer));
        assert_eq!(gate.turn(ticket, newer.term), Turn::Wait);
        gate.leave(holder);
        assert_eq!(gate.turn(ticket, newer.term), Turn::Admitted);
        gate.leave(holder);
        next(gate.offer(&hello(7, 3, 1)));
    }
}

#[test]
fn an_equal_term_of_another_pool_is_refused_until_the_session_is_gone() {
    let mut gate = gate();
    let holder = admitted(gate.offer(&hello(5, 1, 1)));
    let taken = Offer::Refused(Refusal::TermTaken);
    assert_eq!(gate.offer(&hello(5, 2, 9)), taken);
    gate.leave(holder);
    let holder = admitted(gate.offer(&hello(5, 2, 9)));
    let ticket = next(gate.offer(&hello(6, 3, 1)));
    assert_eq!(
        gate.offer(&hello(6, 4, 1)),
        taken,
        "the next one counts as well"
    );
    gate.leave(holder);
    assert_eq!(gate.turn(ticket, 6), Turn::Admitted);
}

#[test]
fn of_several_that_wait_only_the_newest_is_admitted() {
    let mut gate = gate();
    let holder = admitted(gate.offer(&hello(5, 1, 1)));
    let older = next(gate.offer(&hello(5, 1, 2)));
    let newer = next(gate.offer(&hello(5, 1, 3)));
    assert_eq!(gate.turn(older, 5), Turn::Refused(Refusal::StaleGeneration));
    let newest = next(gate.offer(&hello(6, 2, 1)));
    let refused = Turn::Refused(Refusal::LowerTerm { highest: 6 });
    assert_eq!(gate.turn(newer, 5), refused);
    gate.leave(older);
    gate.leave(newer);
    gate.leave(holder);
    assert_eq!(gate.turn(newest, 6), Turn::Admitted);
}

#[test]
fn a_holder_whose_time_is_up_loses_its_place_and_cannot_free_it_again() {
    let mut gate = gate();
    let holder = admitted(gate.offer(&hello(5, 1, 1)));
    let stranger = holder + 100;
    gate.evict(stranger);
    let ticket = next(gate.offer(&hello(5, 1, 2)));
    gate.evict(stranger);
    assert_eq!(gate.turn(ticket, 5), Turn::Wait);
    gate.evict(ticket);
    assert_eq!(gate.turn(ticket, 5), Turn::Admitted);
    gate.leave(holder);
    next(gate.offer(&hello(5, 1, 3)));
}

#[test]
fn one_that_waits_and_goes_leaves_no_trace_but_its_term() {
    let mut gate = gate();
    let holder = admitted(gate.offer(&hello(5, 1, 1)));
    let ticket = next(gate.offer(&hello(6, 2, 1)));
    gate.leave(ticket);
    gate.leave(holder);
    let refused = Offer::Refused(Refusal::LowerTerm { highest: 6 });
    assert_eq!(gate.offer(&hello(5, 1, 2)), refused);
    admitted(gate.offer(&hello(6, 2, 2)));
}

#[test]
fn a_reset_begins_another_scope() {
    let mut gate = gate();
    let holder = admitted(gate.offer(&hello(5, 1, 1)));
    gate.reset("new".to_owned(), 2);
    assert_eq!(
        gate.offer(&hello(6, 1, 2)),
        Offer::Refused(Refusal::WrongScope)
    );
    let mut inside = hello(1, 1, 1);
    inside.scope = "new".to_owned();
    let refused = Offer::Refused(Refusal::LowerTerm { highest: 2 });
    assert_eq!(gate.offer(&inside), refused);
    inside.term = 2;
    // The handler of the old scope may still run.
    let Offer::Next(ticket) = gate.offer(&inside) else {
        panic!("two sessions at one time");
    };
    assert_eq!(gate.turn(ticket, 2), Turn::Wait);
    gate.leave(holder);
    assert_eq!(gate.turn(ticket, 2), Turn::Admitted);
}

#[test]
fn the_memory_of_pools_is_bounded() {
    let mut gate = gate();
    for pool in 0..1000 {
        let ticket = admitted(gate.offer(&hello(5, pool, 1)));
        gate.leave(ticket);
    }
    assert_eq!(gate.seen.len(), REMEMBERED_POOLS);
    assert_eq!(
        gate.offer(&hello(5, 999, 1)),
        Offer::Refused(Refusal::StaleGeneration)
    );
    // It is the oldest ones that were forgotten.
    let newest = 1000 - REMEMBERED_POOLS as u128;
    for pool in newest..1000 {
        let refused = Offer::Refused(Refusal::StaleGeneration);
        assert_eq!(gate.offer(&hello(5, pool, 1)), refused, "{pool}");
    }
    admitted(gate.offer(&hello(5, newest - 1, 1)));
}
