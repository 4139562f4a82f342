//! Hunts an effect of a lower token that starts, or is under way, once a higher one
//! was admitted (F08, F09).

mod support;

use std::collections::BTreeMap;
use std::future::Future;
use std::pin::{Pin, pin};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Barrier, Mutex};
use std::task::Poll;
use std::thread;

use fencing::{Admission, AdmitError, Fence, StaleToken, Token};
use proptest::prelude::*;
use proptest::test_runner::FileFailurePersistence;
use support::{LIMIT, ms, on_thread, poll_once, wait};

fn stale(error: AdmitError) -> StaleToken {
    match error {
        AdmitError::Stale(stale) => stale,
        other => panic!("{other}"),
    }
}

#[test]
fn only_the_highest_token_is_admitted() {
    let fence = Fence::new();
    assert_eq!((fence.highest(), fence.scope()), (0, None));
    for (token, highest) in [(3, 3), (3, 3), (9, 9), (u64::MAX, u64::MAX)] {
        let admission = wait(fence.admit(token)).unwrap();
        assert_eq!(admission.token().number(), token);
        assert!(!admission.is_revoked());
        assert_eq!(
            (fence.highest(), fence.scope()),
            (highest, Some(String::new()))
        );
    }
    let error = stale(wait(fence.admit(8)).unwrap_err());
    assert_eq!((error.token, error.highest), (8, u64::MAX));
    assert!(matches!(wait(fence.admit(0)), Err(AdmitError::Invalid(_))));
}

#[test]
fn an_equal_token_is_admitted_at_once_beside_its_like() {
    let fence = Fence::new();
    let first = wait(fence.admit(5)).unwrap();
    let Poll::Ready(Ok(second)) = poll_once(pin!(fence.admit(5))) else {
        panic!("not at once");
    };
    assert!(!first.is_revoked() && !second.is_revoked());
}

#[test]
fn a_higher_token_revokes_lower_admissions_and_waits_for_them() {
    let fence = Fence::new();
    let low = [wait(fence.admit(5)).unwrap(), wait(fence.admit(5)).unwrap()];
    let mut revoked = pin!(low[0].revoked());
    assert!(poll_once(revoked.as_mut()).is_pending());
    let mut high = pin!(fence.admit(6));
    assert!(poll_once(high.as_mut()).is_pending());
    assert!(poll_once(revoked).is_ready() && low[1].is_revoked());
    // Refused from here on, though its like is still under way.
    assert_eq!(stale(wait(fence.admit(5)).unwrap_err()).highest, 6);
    let [first, second] = low;
    drop(first);
    assert!(poll_once(high.as_mut()).is_pending());
    drop(second);
    assert!(poll_once(high).is_ready());
}

#[test]
fn a_waiting_token_is_refused_when_a_higher_one_comes() {
    let fence = Fence::new().with_drain_wait(LIMIT * 10);
    let low = wait(fence.admit(5)).unwrap();
    let six = on_thread({
        let fence = fence.clone();
        move || wait(fence.admit(6)).map(drop)
    });
    wait(low.revoked());
    let mut seven = pin!(fence.admit(7));
    assert!(poll_once(seven.as_mut()).is_pending());
    // Woken by the raise, not by the end of its own wait.
    assert_eq!(stale(six.join().unwrap_err()).highest, 7);
    drop(low);
    assert!(poll_once(seven).is_ready());
}

#[test]
fn a_future_that_is_dropped_undoes_nothing() {
    let fence = Fence::new();
    let low = wait(fence.admit(5)).unwrap();
    assert!(poll_once(pin!(fence.admit(6))).is_pending());
    assert!(low.is_revoked());
    assert_eq!(fence.highest(), 6);
    stale(wait(fence.admit(5)).unwrap_err());
    // A future that was never polled has done nothing.
    drop(fence.admit(7));
    assert_eq!(fence.highest(), 6);
}

#[test]
fn an_effect_that_outlasts_the_wait_makes_the_higher_token_busy() {
    let fence = Fence::new().with_drain_wait(ms(20));
    let low = wait(fence.admit(5)).unwrap();
    for _ in 0..2 {
        let Err(AdmitError::Busy { token, lower, .. }) = wait(fence.admit(6)) else {
            panic!("not busy");
        };
        assert_eq!((token.number(), lower), (6, 1));
    }
    stale(wait(fence.admit(5)).unwrap_err());
    // The next call waits again, and is woken by the end of the effect.
    let patient = fence.clone().with_drain_wait(LIMIT * 10);
    let waiting = on_thread(move || patient.admit_blocking(6).map(drop));
    drop(low);
    waiting.join().unwrap();
}

#[test]
fn the_wait_is_that_of_the_handle_and_ends_without_any_timer_of_a_runtime() {
    let fence = Fence::new();
    let _low = wait(fence.admit(5)).unwrap();
    let patient = fence.clone().with_drain_wait(LIMIT * 10);
    let mut long = pin!(patient.admit(6));
    assert!(poll_once(long.as_mut()).is_pending());
    // The shorter one is set later and still rings first.
    let hasty = fence.with_drain_wait(ms(10));
    let runtime = tokio::runtime::Builder::new_current_thread()
        .build()
        .unwrap();
    let busy = runtime.block_on(hasty.admit(6)).unwrap_err();
    assert!(matches!(busy, AdmitError::Busy { .. }));
    assert!(poll_once(long).is_pending());
    let none = hasty.with_drain_wait(ms(0));
    assert!(matches!(
        none.admit_blocking(6),
        Err(AdmitError::Busy { .. })
    ));
}

#[test]
fn another_scope_is_refused_until_an_operator_resets() {
    let fence = Fence::new();
    let old = wait(fence.admit(Token::scoped("life-1/meta", 900))).unwrap();
    let rebuilt = Token::scoped("life-2/meta", 3);
    let error = wait(fence.admit(&rebuilt)).unwrap_err();
    let AdmitError::WrongScope(wrong) = &error else {
        panic!("{error}");
    };
    assert_eq!((&wrong.token, &*wrong.scope), (&rebuilt, "life-1/meta"));
    assert!(
        error.to_string().contains("calls reset(\"life-2/meta\")"),
        "{error}"
    );
    assert!(!old.is_revoked());

    fence.reset("life-2/meta").unwrap();
    assert_eq!(
        (fence.highest(), fence.scope().as_deref()),
        (0, Some("life-2/meta"))
    );
    assert!(old.is_revoked());
    wait(fence.admit(Token::scoped("life-1/meta", 901))).unwrap_err();
    // An effect from before the reset is below every token after it.
    let mut new = pin!(fence.admit(rebuilt));
    assert!(poll_once(new.as_mut()).is_pending());
    drop(old);
    assert!(poll_once(new).is_ready());

    fence.reset(&"s".repeat(129)).unwrap_err();
    assert_eq!(fence.highest(), 3);
}

type Calling<'a> = Pin<Box<dyn Future<Output = Result<Admission, AdmitError>> + 'a>>;

proptest! {
    #![proptest_config(ProptestConfig {
        cases: if std::env::var_os("SOAK").is_some() { 1_000_000 } else { 2_000 },
        failure_persistence: Some(Box::new(FileFailurePersistence::WithSource("regressions"))),
        ..ProptestConfig::default()
    })]

    /// Tokens 1 to 5 in any order of asking, waking, finishing and giving up.
    #[test]
    fn no_interleaving_lets_a_lower_effect_through(
        inputs in proptest::collection::vec((0_u8..8, 0_usize..6, 1_u64..6), 0..60),
    ) {
        let fence = Fence::new();
        let mut calls: Vec<(u64, Calling<'_>)> = Vec::new();
        let mut effects: Vec<Admission> = Vec::new();
        let mut admitted = 0;
        for (input, index, token) in inputs {
            let index = match input {
                0..=2 => {
                    calls.push((token, Box::pin(fence.admit(token))));
                    calls.len() - 1
                }
                3..=5 => index,
                6 if index < effects.len() => {
                    drop(effects.remove(index));
                    continue;
                }
                7 if index < calls.len() => {
                    drop(calls.remove(index));
                    continue;
                }
                _ => continue,
            };
            let Some((token, call)) = calls.get_mut(index) else {
                continue;
            };
            let token = *token;
            let Poll::Ready(outcome) = poll_once(call.as_mut()) else {
                continue;
            };
            drop(calls.remove(index));
            match outcome {
                Ok(admission) => {
                    prop_assert!(token >= admitted, "{} after {}", token, admitted);
                    let lower = effects.iter().find(|effect| effect.token().number() < token);
                    prop_assert!(lower.is_none(), "{:?} lives while {} starts", lower, token);
                    admitted = token;
                    effects.push(admission);
                }
                Err(error) => prop_assert!(stale(error).highest > token),
            }
            for effect in &effects {
                prop_assert_eq!(effect.is_revoked(), effect.token().number() < fence.highest());
            }
        }
    }
}

/// The same with real threads and the resource itself as the witness: each effect
/// writes down its token at its start and its end.
#[test]
fn no_race_lets_a_lower_effect_through() {
    const ACTORS: u64 = 4;
    const TURNS: u64 = 500;
    let fence = Fence::new();
    let running: Mutex<BTreeMap<u64, u64>> = Mutex::default();
    let highest = AtomicU64::new(0);
    let (applied, refused) = (AtomicU64::new(0), AtomicU64::new(0));
    let apply = |admission: &Admission| {
        let token = admission.token().number();
        let seen = highest.fetch_max(token, Ordering::SeqCst);
        assert!(seen <= token, "{token} starts after {seen}");
        let mut tokens = running.lock().unwrap();
        *tokens.entry(token).or_default() += 1;
        assert_eq!(tokens.len(), 1, "{tokens:?} run together");
        drop(tokens);
        thread::yield_now();
        let mut tokens = running.lock().unwrap();
        assert_eq!(tokens.len(), 1, "{tokens:?} run together");
        let count = tokens.get_mut(&token).unwrap();
        *count -= 1;
        if *count == 0 {
            tokens.remove(&token);
        }
        applied.fetch_add(1, Ordering::Relaxed);
    };
    let turn_begins = Barrier::new(4);
    thread::scope(|scope| {
        for actor in 0..ACTORS {
            let (fence, apply, refused) = (&fence, &apply, &refused);
            let turn_begins = &turn_begins;
            scope.spawn(move || {
                let mut token = 1;
                for turn in 1..=TURNS {
                    // One actor has just won; the others do not know it yet.
                    if turn % ACTORS == actor {
                        token = turn;
                    }
                    turn_begins.wait();
                    match fence.admit_blocking(token) {
                        Ok(admission) => apply(&admission),
                        Err(error) => {
                            assert!(stale(error).highest > token);
                            assert!(token < turn, "the newest is refused");
                            refused.fetch_add(1, Ordering::Relaxed);
                        }
                    }
                }
            });
        }
    });
    let (applied, refused) = (applied.into_inner(), refused.into_inner());
    println!("CASE F08 fault={refused}");
    assert_eq!(applied + refused, ACTORS * TURNS);
    // The newest of each turn; and who won two turns ago or earlier never.
    assert!(applied >= TURNS && refused > TURNS);
}

/// F09: an old holder is stopped between its check and its write, and a new one
/// takes over meanwhile.
#[test]
fn check_and_write_are_one_step_under_an_admission() {
    let fence = Fence::new();
    let resource = Arc::new(Mutex::new(Vec::new()));
    let old = wait(fence.admit(1)).unwrap();
    let has_written = Arc::new(AtomicBool::new(false));
    let takeover = on_thread({
        let (fence, resource, has_written) = (fence.clone(), resource.clone(), has_written.clone());
        move || {
            let admission = wait(fence.admit(2)).unwrap();
            resource.lock().unwrap().push(admission.token().number());
            has_written.store(true, Ordering::SeqCst);
        }
    });
    // The old one is stopped here: checked, not yet written.
    wait(old.revoked());
    assert!(!has_written.load(Ordering::SeqCst));
    resource.lock().unwrap().push(old.token().number());
    drop(old);
    takeover.join();
    // Its write came before the new one's; a further one is refused.
    stale(wait(fence.admit(1)).unwrap_err());
    assert_eq!(*resource.lock().unwrap(), [1, 2]);
    println!(
        "CASE F09 fault={}",
        u64::from(has_written.load(Ordering::SeqCst))
    );
}
