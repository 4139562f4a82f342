//! Hunts work that starts, goes on or counts after its time.
#![cfg(feature = "test-util")]

mod support;

use std::cell::Cell;
use std::future::{pending, ready};
use std::pin::pin;
use std::sync::Arc;
use std::task::{Context, Poll, Waker};

use fencing::{Action, Guard, GuardState};
use support::{Wakes, ms, poll_once, simulated};

#[test]
fn nothing_starts_from_the_cancel_point_on() {
    let (watchdog, _, hand) = simulated();
    let guard = watchdog.guard(7, ms(110_000)).unwrap();
    for now in 100_000..107_500 {
        hand.set(now);
        guard.check().unwrap();
        assert_eq!(guard.remaining(), ms(107_500 - now));
    }
    for now in [107_500, 107_501, 109_499, 109_500, 110_000, 1_000_000_000] {
        hand.set(now);
        assert_eq!(guard.check().unwrap_err().token(), 7, "at {now}");
        guard.permit().unwrap_err();
        assert_eq!(guard.remaining(), ms(0));
    }
}

#[test]
fn what_has_started_may_finish_until_the_abort_point() {
    let (watchdog, _, hand) = simulated();
    let guard = watchdog.guard(7, ms(110_000)).unwrap();
    let permit = guard.permit().unwrap();
    assert_eq!(permit.token(), 7);
    hand.set(109_499);
    permit.check().unwrap();
    guard.check().unwrap_err();
    hand.set(109_500);
    assert_eq!(permit.check().unwrap_err().state(), GuardState::Lost);
}

#[test]
fn an_explicit_loss_has_no_grace() {
    type Lose = fn(&Guard);
    let ways: [Lose; 2] = [Guard::trip, |guard| guard.extend(ms(0))];
    for lose in ways {
        let (watchdog, _, _hand) = simulated();
        let guard = watchdog.guard(7, ms(110_000)).unwrap();
        let permit = guard.permit().unwrap();
        let mut cancelled = pin!(guard.cancelled());
        assert!(poll_once(cancelled.as_mut()).is_pending());
        lose(&guard);
        assert_eq!(guard.state(), GuardState::Lost);
        guard.check().unwrap_err();
        permit.check().unwrap_err();
        assert!(poll_once(cancelled).is_ready());
    }
}

#[test]
fn a_renewal_moves_both_points_later_and_never_earlier() {
    let (watchdog, simulation, hand) = simulated();
    let guard = watchdog.guard(7, ms(110_000)).unwrap();
    guard.extend(ms(113_000));
    guard.extend(ms(111_000));
    hand.set(110_499);
    guard.check().unwrap();
    assert_eq!(simulation.tick(), Some(ms(110_500)));
    assert_eq!(simulation.actions(), []);
}

#[test]
fn a_renewal_from_the_cancel_point_on_is_too_late_even_if_nobody_has_looked() {
    for now in [107_500, 109_499, 109_500, 3_000_000] {
        let (watchdog, _, hand) = simulated();
        let guard = watchdog.guard(7, ms(110_000)).unwrap();
        hand.set(now);
        guard.extend(ms(now + 10_000));
        guard.check().unwrap_err();
        hand.set(109_500.max(now));
        assert_eq!(guard.state(), GuardState::Lost, "at {now}");
    }
}

#[test]
fn the_watchdog_cancels_at_the_cancel_point_and_counts_the_loss_at_the_abort_point() {
    let (watchdog, simulation, hand) = simulated();
    let guard = watchdog.guard(7, ms(110_000)).unwrap();
    let wakes = Arc::new(Wakes::default());
    let waker = Waker::from(Arc::clone(&wakes));
    let mut cancelled = pin!(guard.cancelled());
    assert!(
        cancelled
            .as_mut()
            .poll(&mut Context::from_waker(&waker))
            .is_pending()
    );

    assert_eq!(simulation.tick(), Some(ms(107_500)));
    assert_eq!(wakes.count(), 0);
    hand.set(107_500);
    assert_eq!(simulation.tick(), Some(ms(109_500)));
    assert_eq!(wakes.count(), 1);
    assert!(poll_once(cancelled).is_ready());
    assert_eq!(guard.state(), GuardState::Closing);
    hand.set(109_600);
    assert_eq!(simulation.tick(), None);
    assert_eq!(guard.state(), GuardState::Lost);
    let actions = simulation.actions();
    let [
        Action::Cancelled { token: 7, at, .. },
        Action::Lost {
            token: 7, at: lost, ..
        },
    ] = actions[..]
    else {
        panic!("{actions:?}");
    };
    assert_eq!((at, lost), (ms(107_500), ms(109_600)));
    // Said once.
    simulation.tick();
    assert_eq!(simulation.actions().len(), 2);
}

#[test]
fn a_deadline_that_is_too_near_gives_a_lost_guard_and_no_error() {
    for deadline in [ms(0), ms(99_000), ms(102_500), ms(100_001)] {
        let (watchdog, simulation, _hand) = simulated();
        let guard = watchdog.guard(7, deadline).unwrap();
        assert_eq!(guard.state(), GuardState::Lost, "{deadline:?}");
        guard.permit().unwrap_err();
        assert!(poll_once(pin!(guard.cancelled())).is_ready());
        guard.extend(ms(200_000));
        guard.check().unwrap_err();
        assert_eq!(simulation.tick(), None);
        // Nothing was guarded: the next guard is free to be made.
        watchdog.guard(8, ms(110_000)).unwrap().check().unwrap();
    }
    let (watchdog, _, _hand) = simulated();
    watchdog.guard(7, ms(102_501)).unwrap().check().unwrap();
}

#[test]
fn run_drops_its_future_at_the_cancel_point() {
    let (watchdog, simulation, hand) = simulated();
    let guard = watchdog.guard(7, ms(110_000)).unwrap();
    let is_dropped = Cell::new(false);
    struct Note<'a>(&'a Cell<bool>);
    impl Drop for Note<'_> {
        fn drop(&mut self) {
            self.0.set(true);
        }
    }
    let note = Note(&is_dropped);
    let wakes = Arc::new(Wakes::default());
    let waker = Waker::from(Arc::clone(&wakes));
    let mut cx = Context::from_waker(&waker);
    let mut run = pin!(guard.run(async move {
        let _note = note;
        pending::<()>().await;
    }));
    assert!(run.as_mut().poll(&mut cx).is_pending());
    hand.set(107_500);
    assert!(!is_dropped.get());
    simulation.tick();
    assert_eq!(wakes.count(), 1);
    let Poll::Ready(Err(lost)) = run.as_mut().poll(&mut cx) else {
        panic!("still running");
    };
    assert!(is_dropped.get());
    assert_eq!((lost.token(), lost.state()), (7, GuardState::Closing));
    assert_eq!(
        lost.to_string(),
        "work under token 7 was stopped: its guard is closing, by its cancel point or by finish"
    );
}

#[test]
fn a_run_that_is_dropped_drops_its_work_and_leaves_the_guard_live() {
    let (watchdog, simulation, _hand) = simulated();
    let guard = watchdog.guard(7, ms(110_000)).unwrap();
    let work = Arc::new(());
    let held = Arc::clone(&work);
    let mut run = Box::pin(guard.run(async move {
        let _held = held;
        pending::<()>().await;
    }));
    let mut cancelled = Box::pin(guard.cancelled());
    assert!(poll_once(run.as_mut()).is_pending());
    assert!(poll_once(cancelled.as_mut()).is_pending());
    drop((run, cancelled));
    assert_eq!(Arc::strong_count(&work), 1, "the work is dropped");
    simulation.tick();
    guard.check().unwrap();
    assert_eq!(
        (guard.state(), simulation.actions()),
        (GuardState::Live, vec![])
    );
}

#[test]
fn run_returns_what_was_done_in_time_and_nothing_else() {
    let (watchdog, _, hand) = simulated();
    let guard = watchdog.guard(7, ms(110_000)).unwrap();
    assert_eq!(poll_once(pin!(guard.run(ready(1)))), Poll::Ready(Ok(1)));
    // Done, but over the point while it was polled; the watchdog is late besides.
    let slow = async { hand.set(107_500) };
    assert!(matches!(
        poll_once(pin!(guard.run(slow))),
        Poll::Ready(Err(_))
    ));
    // Not even polled any more.
    let never = async { panic!("started too late") };
    assert!(matches!(
        poll_once(pin!(guard.run(never))),
        Poll::Ready(Err(_))
    ));
}
