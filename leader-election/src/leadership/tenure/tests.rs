use std::sync::{Arc, atomic::AtomicU64};

use super::*;

fn secs(seconds: u64) -> Duration {
    Duration::from_secs(seconds)
}

/// A tenure until 10 s, and the hand of its clock, which stands at 1 s.
fn tenure() -> (Arc<Tenure>, Arc<AtomicU64>) {
    let hand = Arc::new(AtomicU64::new(nanos(secs(1))));
    let read = Arc::clone(&hand);
    let clock = Clock::custom(move || Duration::from_nanos(read.load(Ordering::SeqCst)));
    (Arc::new(Tenure::new(clock, secs(10))), hand)
}

fn recorder(tenure: &Tenure) -> Arc<Mutex<Vec<Duration>>> {
    let seen = Arc::new(Mutex::new(Vec::new()));
    let record = Arc::clone(&seen);
    tenure.follow(Box::new(move |deadline| {
        record.lock().unwrap().push(deadline)
    }));
    seen
}

#[test]
fn the_deadline_itself_is_over() {
    let (tenure, hand) = tenure();
    assert_eq!(tenure.remaining(), secs(9));
    hand.store(nanos(secs(10)) - 1, Ordering::SeqCst);
    assert_eq!(tenure.deadline(), secs(10));
    hand.store(nanos(secs(10)), Ordering::SeqCst);
    assert_eq!(tenure.deadline(), Duration::ZERO);
    assert_eq!(tenure.remaining(), Duration::ZERO);
}

#[test]
fn what_a_check_found_over_is_not_revived_even_by_a_clock_that_goes_back() {
    let (tenure, hand) = tenure();
    hand.store(nanos(secs(11)), Ordering::SeqCst);
    assert_eq!(tenure.deadline(), Duration::ZERO);
    hand.store(nanos(secs(2)), Ordering::SeqCst);
    assert!(!tenure.extend(secs(20)));
    assert_eq!(tenure.deadline(), Duration::ZERO);
}

#[test]
fn an_extension_after_the_deadline_is_refused_without_any_check_between() {
    let (tenure, hand) = tenure();
    hand.store(nanos(secs(10)), Ordering::SeqCst);
    assert!(!tenure.extend(secs(20)));
}

#[test]
fn followers_see_the_present_deadline_then_only_higher_ones_then_zero_once() {
    let (tenure, _) = tenure();
    let seen = recorder(&tenure);
    assert!(tenure.extend(secs(12)));
    assert!(tenure.extend(secs(11)));
    assert!(tenure.extend(secs(12)));
    tenure.end(Loss::Removed);
    tenure.end(Loss::Resigned);
    assert!(!tenure.extend(secs(30)));
    assert_eq!(*seen.lock().unwrap(), [secs(10), secs(12), Duration::ZERO]);
    assert_eq!(tenure.loss(), Some(Loss::Removed), "the first reason stays");
}

#[test]
fn who_follows_after_the_end_is_told_zero_and_let_go() {
    let (tenure, _) = tenure();
    tenure.end(Loss::Removed);
    let seen = recorder(&tenure);
    assert_eq!(*seen.lock().unwrap(), [Duration::ZERO]);
    // And is kept no longer, with whatever it owns.
    assert_eq!(Arc::strong_count(&seen), 1);
}

#[test]
fn followers_are_told_before_anybody_who_waits_for_the_loss() {
    let (tenure, _) = tenure();
    let losses = Arc::new(Mutex::new(Vec::new()));
    let (watched, record) = (tenure.watch_loss(), Arc::clone(&losses));
    tenure.follow(Box::new(move |_| {
        record.lock().unwrap().push(*watched.borrow())
    }));
    tenure.end(Loss::Removed);
    assert_eq!(*losses.lock().unwrap(), [None, None]);
}

#[test]
fn a_panic_of_a_follower_is_a_loss_and_the_others_are_told() {
    let (tenure, _) = tenure();
    let seen = recorder(&tenure);
    tenure.follow(Box::new(|deadline| assert_eq!(deadline, secs(10))));
    assert!(!tenure.extend(secs(12)));
    assert_eq!(tenure.loss(), Some(Loss::FollowerPanicked));
    assert_eq!(tenure.deadline(), Duration::ZERO);
    assert_eq!(*seen.lock().unwrap(), [secs(10), secs(12), Duration::ZERO]);
}

#[test]
fn a_panic_in_the_first_call_is_a_loss_and_stays_inside() {
    let (tenure, _) = tenure();
    tenure.follow(Box::new(|_| panic!("first call")));
    assert_eq!(tenure.loss(), Some(Loss::FollowerPanicked));
}

#[test]
fn a_follower_may_end_the_tenure_when_it_is_told_zero() {
    let (tenure, _) = tenure();
    let own = Arc::clone(&tenure);
    tenure.follow(Box::new(move |deadline| {
        if deadline.is_zero() {
            own.end(Loss::Resigned);
        }
    }));
    tenure.end(Loss::Removed);
    assert_eq!(tenure.loss(), Some(Loss::Removed));
}

#[test]
fn the_first_outcome_of_the_release_stays() {
    let (tenure, _) = tenure();
    tenure.released(Resigned::Released);
    tenure.released(Resigned::Unconfirmed);
    assert_eq!(*tenure.watch_release().borrow(), Some(Resigned::Released));
}

#[test]
fn racing_extensions_and_checks_never_revive_nor_fall() {
    let (tenure, hand) = tenure();
    let seen = recorder(&tenure);
    let end = secs(10) + secs(2);
    std::thread::scope(|scope| {
        let checker = || {
            let mut last = tenure.deadline();
            for _ in 0..20_000 {
                let now = tenure.deadline();
                assert!(now.is_zero() || (!last.is_zero() && now >= last));
                last = now;
            }
        };
        scope.spawn(checker);
        scope.spawn(checker);
        scope.spawn(|| {
            for step in 0..2_000 {
                tenure.extend(secs(10) + Duration::from_millis(step));
            }
        });
        scope.spawn(|| {
            for step in 0..2_000 {
                hand.store(
                    nanos(secs(9) + Duration::from_millis(step)),
                    Ordering::SeqCst,
                );
            }
            hand.store(nanos(end), Ordering::SeqCst);
        });
    });
    tenure.end(Loss::Expired);
    let seen = seen.lock().unwrap();
    let (last, rising) = seen.split_last().unwrap();
    assert!(last.is_zero());
    assert!(rising.is_sorted() && rising.iter().all(|value| !value.is_zero()));
}
