//! Hunts a second caller of a new token that slips in beside an effect of a lower one:
//! while the raise is being written, while a lower admission lives, and after `Busy`.

use std::future::Future;
use std::pin::{Pin, pin};
use std::task::Poll;

use fencing::{Admission, AdmitError, Fence};
use proptest::prelude::*;
use tempfile::tempdir;

use crate::support::{LIMIT, ms, poll_once, until, wait};

type Calling<'a> = Pin<Box<dyn Future<Output = Result<Admission, AdmitError>> + 'a>>;

#[test]
fn no_second_caller_of_a_new_token_overtakes_the_lower_effect() {
    let folder = tempdir().unwrap();
    let path = folder.path().join("orders.mark");
    let fence = Fence::open(&path).unwrap().with_drain_wait(LIMIT * 10);
    let low = wait(fence.admit(5)).unwrap();
    let call = || -> Calling<'_> { Box::pin(fence.admit(6)) };
    let mut calls: Vec<Calling<'_>> = Vec::new();
    // While it is being written: whichever of these polls meets the write.
    for _ in 0..50 {
        calls.push(call());
        for call in &mut calls {
            assert!(poll_once(call.as_mut()).is_pending());
        }
    }
    // Written, and the lower one lives.
    let stored = || String::from_utf8_lossy(&std::fs::read(&path).unwrap()).contains("token 6\n");
    until("the raise is stored", stored);
    calls.push(call());
    // After `Busy`, of an impatient caller.
    let hasty = fence.clone().with_drain_wait(ms(5));
    for _ in 0..2 {
        let busy = wait(hasty.admit(6)).unwrap_err();
        assert!(matches!(busy, AdmitError::Busy { lower: 1, .. }), "{busy}");
        calls.push(call());
    }
    for call in &mut calls {
        assert!(poll_once(call.as_mut()).is_pending());
    }
    drop(low);
    let admitted: Vec<_> = calls.into_iter().map(wait).collect();
    assert!(admitted.iter().all(Result::is_ok));
}

#[test]
fn a_first_caller_that_gives_up_leaves_the_raise_to_the_second() {
    let folder = tempdir().unwrap();
    let fence = Fence::open(folder.path().join("orders.mark")).unwrap();
    let low = wait(fence.admit(5)).unwrap();
    assert!(poll_once(pin!(fence.admit(6))).is_pending());
    let mut second = pin!(fence.admit(6));
    assert!(poll_once(second.as_mut()).is_pending());
    drop(low);
    drop(wait(second).unwrap());
}

#[test]
fn what_is_held_at_the_highest_token_there_is_can_still_be_reset() {
    let fence = Fence::new();
    let last = wait(fence.admit(u64::MAX)).unwrap();
    assert!(!last.is_revoked());
    let also = wait(fence.admit(u64::MAX)).unwrap();
    assert!(wait(fence.admit(u64::MAX - 1)).is_err());
    fence.reset("").unwrap();
    assert!(last.is_revoked() && also.is_revoked());
    let mut first = pin!(fence.admit(1));
    assert!(poll_once(first.as_mut()).is_pending());
    drop((last, also));
    drop(wait(first).unwrap());
}

#[test]
fn an_admission_of_before_a_reset_is_none_of_the_equal_token_after_it() {
    let fence = Fence::new();
    let before = wait(fence.admit(7)).unwrap();
    fence.reset("").unwrap();
    let mut after = pin!(fence.admit(7));
    assert!(
        poll_once(after.as_mut()).is_pending(),
        "beside an older era"
    );
    assert!(before.is_revoked());
    drop(before);
    let after = wait(after).unwrap();
    assert!(!after.is_revoked());
    assert!(poll_once(pin!(after.revoked())).is_pending());
}

#[derive(Clone, Copy, Debug)]
enum Input {
    Call(u64),
    Poll(usize),
    GiveUp(usize),
    Done(usize),
}

fn input() -> impl Strategy<Value = Input> {
    prop_oneof![
        3 => (1_u64..6).prop_map(Input::Call),
        4 => (0_usize..6).prop_map(Input::Poll),
        1 => (0_usize..6).prop_map(Input::GiveUp),
        2 => (0_usize..6).prop_map(Input::Done),
    ]
}

#[derive(Default)]
struct World<'a> {
    calls: Vec<(u64, Calling<'a>)>,
    effects: Vec<Admission>,
    admitted: u64,
}

impl<'a> World<'a> {
    fn apply(&mut self, fence: &'a Fence, input: Input) -> Result<(), TestCaseError> {
        match input {
            Input::Call(token) => {
                self.calls.push((token, Box::pin(fence.admit(token))));
                self.poll(self.calls.len() - 1)?;
            }
            Input::Poll(call) if call < self.calls.len() => self.poll(call)?,
            Input::GiveUp(call) if call < self.calls.len() => drop(self.calls.remove(call)),
            Input::Done(effect) if effect < self.effects.len() => drop(self.effects.remove(effect)),
            Input::Poll(_) | Input::GiveUp(_) | Input::Done(_) => {}
        }
        Ok(())
    }

    fn poll(&mut self, call: usize) -> Result<(), TestCaseError> {
        let Poll::Ready(outcome) = poll_once(self.calls[call].1.as_mut()) else {
            return Ok(());
        };
        let (token, _) = self.calls.remove(call);
        if let Ok(admission) = outcome {
            prop_assert!(token >= self.admitted, "{} after {}", token, self.admitted);
            for effect in &self.effects {
                prop_assert_eq!(effect.token().number(), token);
            }
            self.admitted = token;
            self.effects.push(admission);
        }
        Ok(())
    }
}

proptest! {
    #![proptest_config(ProptestConfig {
        cases: if std::env::var_os("SOAK").is_some() { 10_000 } else { 100 },
        failure_persistence: None,
        ..ProptestConfig::default()
    })]

    /// The same with a file that is written at the same time, at whatever speed it is.
    #[test]
    fn no_interleaving_with_a_real_write_lets_a_lower_effect_through(
        inputs in proptest::collection::vec(input(), 0..40),
    ) {
        let folder = tempdir().unwrap();
        let path = folder.path().join("orders.mark");
        let fence = Fence::open(&path).unwrap();
        let mut world = World::default();
        for input in inputs {
            world.apply(&fence, input)?;
        }
        let admitted = world.admitted;
        drop(world);
        drop(fence);
        let mut after = None;
        until("a write that still runs has ended", || {
            after = Fence::open(&path).ok();
            after.is_some()
        });
        prop_assert!(after.is_some_and(|fence| fence.highest() >= admitted));
    }
}
