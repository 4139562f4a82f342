use std::cell::Cell;

use fencing::{Fence, Policy, Watchdog, WatchdogConfig};

use super::*;

const TTL: Duration = Duration::from_secs(10);
const MS: Duration = Duration::from_millis(1);

thread_local! {
    static NOW: Cell<Duration> = const { Cell::new(Duration::from_secs(100)) };
    /// What happens right after the clock was read.
    static NEXT: Cell<Option<Box<dyn FnOnce()>>> = const { Cell::new(None) };
}

fn now_and_next() -> Duration {
    let now = NOW.get();
    NEXT.take().into_iter().for_each(|next| next());
    now
}

fn now() -> Duration {
    NOW.get()
}

fn pass(time: Duration) {
    NOW.set(NOW.get() + time);
}

fn open_file() -> (tempfile::TempDir, Connection) {
    let folder = tempfile::tempdir().unwrap();
    let db = open(folder.path().join("lease")).unwrap();
    (folder, db)
}

fn candidate(holder: &str) -> Candidate {
    let mut candidate = Candidate::new("reports", holder, TTL);
    candidate.clock = now;
    candidate
}

#[test]
fn a_lease_is_taken_once_it_has_stood_still_for_its_ttl_by_the_takers_own_clock() {
    let (_folder, db) = open_file();
    let (mut a, mut b) = (candidate("a"), candidate("b"));
    let mut first = a.try_take(&db).unwrap().unwrap();
    assert_eq!((first.token, first.deadline), (1, now() + TTL - TTL / 1000));
    assert!(b.try_take(&db).unwrap().is_none(), "from here on it counts");
    pass(TTL - MS);
    first.renew(&db).unwrap().unwrap();
    pass(MS);
    assert!(
        b.try_take(&db).unwrap().is_none(),
        "it has moved: it counts from here on"
    );
    pass(TTL - MS);
    assert!(b.try_take(&db).unwrap().is_none());
    assert!(
        first.deadline <= now(),
        "the holder is over before the next one begins"
    );
    pass(MS);
    let second = b.try_take(&db).unwrap().unwrap();
    assert_eq!(second.token, 2);
    assert_eq!(first.renew(&db).unwrap(), None);
    first.release(&db).unwrap();
    assert!(
        a.try_take(&db).unwrap().is_none(),
        "a late release frees nothing"
    );
}

#[test]
fn the_takers_time_begins_after_it_has_read_the_row() {
    let (folder, db) = open_file();
    let other = open(folder.path().join("lease")).unwrap();
    let (mut a, mut b) = (candidate("a"), candidate("b"));
    b.clock = now_and_next;
    let mut first = a.try_take(&db).unwrap().unwrap();
    // Time passes for the taker between its clock and the row, and the holder renews.
    NEXT.set(Some(Box::new(move || {
        pass(TTL / 2);
        first.renew(&other).unwrap().unwrap();
    })));
    assert!(b.try_take(&db).unwrap().is_none());
    pass(TTL / 2);
    assert!(
        b.try_take(&db).unwrap().is_none(),
        "it was renewed a moment ago"
    );
    pass(TTL);
    assert_eq!(b.try_take(&db).unwrap().unwrap().token, 2);
}

#[test]
fn a_lease_that_is_given_back_is_taken_at_once_and_the_token_rises() {
    let (_folder, db) = open_file();
    let (mut a, mut b) = (candidate("a"), candidate("b"));
    let lease = a.try_take(&db).unwrap().unwrap();
    assert!(b.try_take(&db).unwrap().is_none());
    lease.release(&db).unwrap();
    assert_eq!(b.try_take(&db).unwrap().unwrap().token, 2);
    assert!(a.try_take(&db).unwrap().is_none());
}

#[test]
fn of_two_that_find_it_over_one_takes_it() {
    let (folder, db) = open_file();
    let other = open(folder.path().join("lease")).unwrap();
    let (mut a, mut b, mut c) = (candidate("a"), candidate("b"), candidate("c"));
    a.try_take(&db).unwrap().unwrap();
    assert!(b.try_take(&db).unwrap().is_none());
    assert!(c.try_take(&other).unwrap().is_none());
    pass(TTL);
    assert_eq!(b.try_take(&db).unwrap().unwrap().token, 2);
    assert!(c.try_take(&other).unwrap().is_none());
}

#[test]
fn a_guard_follows_the_row_and_the_resource_refuses_its_former_holder() {
    let (_folder, db) = open_file();
    let mut a = Candidate::new("reports", "a", TTL);
    let mut b = Candidate::new("reports", "b", MS * 50);
    let config = WatchdogConfig::for_ttl(TTL).with_policy(Policy::CancelOnly);
    let watchdog = Watchdog::start(config).unwrap();
    let orders = Fence::new();

    let mut lease = a.try_take(&db).unwrap().unwrap();
    let guard = watchdog.guard(lease.token, lease.deadline).unwrap();
    let permit = guard.permit().unwrap();
    drop(orders.admit_blocking(lease.token).unwrap());
    drop(permit);
    guard.extend(lease.renew(&db).unwrap().unwrap());

    // By hand, as an operator who is in a hurry does: the holder learns it by its renewal.
    db.execute("UPDATE lease SET is_free = 1", []).unwrap();
    let next = b.try_take(&db).unwrap().unwrap();
    drop(orders.admit_blocking(next.token).unwrap());
    assert!(
        orders.admit_blocking(lease.token).is_err(),
        "late, and refused"
    );
    assert_eq!(lease.renew(&db).unwrap(), None);
    guard.trip();
    assert!(guard.permit().is_err());
}
