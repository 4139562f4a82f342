use super::*;

const TTL: Duration = Duration::from_secs(10);

fn id(number: u64) -> CandidateId {
    CandidateId::new(number)
}

/// A queue with two places, of the ids 1 and 2, taken at `now`.
fn two(now: Instant) -> Queue {
    let mut queue = Queue::new(7);
    assert_eq!(queue.join(now, id(1), b"a", TTL), Some((7, TTL)));
    assert_eq!(queue.join(now, id(2), b"b", 2 * TTL), Some((8, 2 * TTL)));
    queue
}

#[test]
fn places_are_in_the_order_of_joining() {
    let now = Instant::now();
    let mut queue = two(now);
    assert_eq!(queue.standing(7), Standing::First);
    assert_eq!(queue.standing(8), Standing::Queued);
    assert_eq!(queue.standing(9), Standing::Gone(Loss::Removed));
    assert_eq!(
        queue.leader("s"),
        Some(Leader::new(b"a".as_slice(), 7, "s"))
    );
    assert!(queue.leave(id(1), 7));
    assert_eq!(queue.standing(8), Standing::First);
    assert_eq!(queue.standing(7), Standing::Gone(Loss::Removed));
}

#[test]
fn who_joins_again_finds_its_place() {
    let now = Instant::now();
    let mut queue = two(now);
    let again = queue.join(now + TTL / 2, id(2), b"c", TTL);
    assert_eq!(again, Some((8, 2 * TTL)));
    assert_eq!(queue.token_of(id(2)), Some(8));
    assert_eq!(queue.token_of(id(3)), None);
    assert_eq!(queue.places.len(), 2);
    assert_eq!(queue.next_end(), Some(now + TTL));
}

#[test]
fn a_place_lasts_until_its_lease_ends_and_a_renewal_starts_it_anew() {
    let now = Instant::now();
    let mut queue = two(now);
    let nearly = now + TTL - Duration::from_nanos(1);
    assert!(!queue.purge(nearly));
    assert_eq!(queue.renew(nearly, 7), Some(TTL));
    assert_eq!(queue.renew(nearly, 9), None);
    assert_eq!(queue.next_end(), Some(nearly + TTL));
    assert!(!queue.purge(now + TTL));
    assert!(queue.purge(nearly + TTL));
    assert_eq!(queue.standing(7), Standing::Gone(Loss::Removed));
    assert_eq!(queue.standing(8), Standing::First);
    assert_eq!(queue.renew(nearly + TTL, 7), None);
    assert!(queue.purge(now + 2 * TTL));
    assert_eq!((queue.next_end(), queue.leader("s")), (None, None));
}

#[test]
fn a_place_is_changed_and_left_by_its_own_only() {
    let now = Instant::now();
    let mut queue = two(now);
    queue.set_value(7, b"newer");
    queue.set_value(9, b"nobody's");
    let leader = queue.leader("s").expect("somebody leads");
    assert_eq!(leader.value, b"newer");
    assert!(!queue.leave(id(2), 7));
    assert!(!queue.leave(id(1), 9));
    assert_eq!(queue.standing(7), Standing::First);
}

#[test]
fn without_a_token_nobody_joins() {
    let now = Instant::now();
    let mut queue = Queue::new(u64::MAX);
    assert_eq!(queue.join(now, id(1), b"", TTL), Some((u64::MAX, TTL)));
    assert_eq!(queue.join(now, id(2), b"", TTL), None);
    assert_eq!(queue.join(now, id(1), b"", TTL), Some((u64::MAX, TTL)));
}
