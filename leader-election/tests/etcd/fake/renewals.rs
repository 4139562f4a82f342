//! Hunts renewals that count though they prove nothing, and such that end a leadership
//! though they say nothing.

use std::time::Duration;

use leader_election::{Loss, Resigned, etcd::EtcdOptions};
use tokio::task::JoinSet;
use tonic::Status;

use super::{Deadlines, Fake, Fate, TTL, bent, lead};
use crate::{boot_time, config, soon, together::together};

/// More than scheduling takes.
const SLACK: Duration = Duration::from_millis(900);

together! {
    renewals_are_bent:
    a_ttl_of_zero_ends_the_leadership_though_its_key_is_there,
    a_ttl_of_zero_while_waiting_is_a_new_place_at_the_back,
    a_verified_renewal_does_not_count_without_the_key,
    a_renewal_of_another_raft_term_than_its_read_does_not_count,
    a_late_answer_counts_from_when_it_was_asked_for,
    answers_beyond_the_limit_end_the_leadership_at_its_deadline,
    a_renewal_whose_stream_ends_early_is_sent_again,
    errors_of_etcd_cost_attempts_and_no_leadership,
}

async fn a_ttl_of_zero_ends_the_leadership_though_its_key_is_there() {
    let fake = Fake::start().await;
    let election = fake.join().await;
    let leadership = lead(&election, b"a").await.unwrap();
    fake.bend_renewals(|_, mut answer| {
        answer.ttl = 0;
        Fate::Changed(answer)
    });
    assert_eq!(soon(leadership.lost()).await, Loss::Removed);
    assert!(!leadership.is_valid());
    assert!(fake.bent() > 0);
    assert_eq!(fake.candidates(), 1, "the fake has deleted nothing");
}

async fn a_ttl_of_zero_while_waiting_is_a_new_place_at_the_back() {
    let fake = Fake::start().await;
    let (first, second) = (fake.join().await, fake.join().await);
    let leads = lead(&first, b"a").await.unwrap();
    let waits = tokio::spawn(async move { lead(&second, b"b").await.unwrap() });
    // The leader's own key, then those of the candidate and of who is ahead of it.
    fake.watched(3).await;
    let place = first.candidates().await.unwrap()[1].token;
    let leader = fake.change(|model| model.lease_of(leads.token()));
    let mut is_told = false;
    fake.bend_renewals(move |model, mut answer| {
        if answer.id == leader || is_told {
            return Fate::Kept(answer);
        }
        is_told = true;
        // As etcd does: a lease that is over takes its key with it.
        model.revoke(answer.id).unwrap();
        answer.ttl = 0;
        Fate::Changed(answer)
    });
    bent(&fake, 1).await;
    // Those of its new place, and of who is ahead of that.
    fake.watched(5).await;
    assert!(leads.is_valid());
    assert_eq!(leads.resign().await, Resigned::Released);
    let won = soon(waits).await.unwrap();
    assert!(won.token() > place, "not with the place that was lost");
}

async fn a_verified_renewal_does_not_count_without_the_key() {
    let fake = Fake::start().await;
    let election = fake.join().await;
    let leadership = lead(&election, b"a").await.unwrap();
    let deadlines = Deadlines::of(&leadership);
    fake.watched(1).await;
    // Nobody tells of the delete, and the lease is served on: as older versions do.
    fake.bend_watches(|_, _| Fate::Instead(Vec::new()));
    let last = deadlines.last();
    fake.delete(&[leadership.token()]);
    let deleted = boot_time();
    assert_eq!(soon(leadership.lost()).await, Loss::Removed);
    let took = boot_time() - deleted;
    let bound = config(TTL).renew_every + config(TTL).renew_timeout;
    assert!(took < bound + SLACK, "{took:?}, not {bound:?}");
    assert!(boot_time() < last, "before the deadline that was told");
    assert!(fake.bent() > 0);
}

#[tokio::test(flavor = "multi_thread")]
async fn an_unverified_renewal_counts_without_the_key() {
    let fake = Fake::start().await;
    let options = EtcdOptions::default().with_verify_renewals(false);
    let (election, other) = (fake.join_with(options).await, fake.join().await);
    let leadership = lead(&election, b"a").await.unwrap();
    let deadlines = Deadlines::of(&leadership);
    fake.watched(1).await;
    fake.bend_watches(|_, _| Fate::Instead(Vec::new()));
    fake.delete(&[leadership.token()]);
    // The documented danger: another leads as well, for one TTL, after which the
    // watch is opened anew.
    let other = lead(&other, b"b").await.unwrap();
    deadlines.next().await;
    assert!(leadership.is_valid() && other.is_valid());
    assert!(other.token() > leadership.token());
    assert!(fake.bent() > 0);
    assert_eq!(soon(leadership.lost()).await, Loss::Removed);
}

async fn a_renewal_of_another_raft_term_than_its_read_does_not_count() {
    const FAULTS: u64 = 2;
    let fake = Fake::start().await;
    let election = fake.join().await;
    let leadership = lead(&election, b"a").await.unwrap();
    let deadlines = Deadlines::of(&leadership);
    let before = deadlines.last();
    let mut left = FAULTS * 2;
    // Each renewal has two answers. The terms of one that is complete are equal.
    fake.bend_renewals(move |model, answer| {
        if left == 0 {
            return Fate::Kept(answer);
        }
        left -= 1;
        model.raft_term += 1;
        Fate::Changed(answer)
    });
    bent(&fake, FAULTS * 2).await;
    assert_eq!(deadlines.last(), before, "it was not confirmed");
    deadlines.next().await;
    assert!(leadership.is_valid() && deadlines.last() > before);
    assert_eq!(leadership.resign().await, Resigned::Released);
}

async fn a_late_answer_counts_from_when_it_was_asked_for() {
    let fake = Fake::start().await;
    let election = fake.join().await;
    let leadership = lead(&election, b"a").await.unwrap();
    let deadlines = Deadlines::of(&leadership);
    // Two of these, and the read, fit into the limit of 500 ms.
    let delay = Duration::from_millis(180);
    fake.bend_renewals(move |_, answer| Fate::Late(answer, delay));
    bent(&fake, 2).await;
    for _ in 0..2 {
        deadlines.next().await;
        let left = deadlines.last().saturating_sub(boot_time());
        let most = Duration::from_secs(TTL) - 2 * delay;
        assert!(left <= most, "{left:?} are left, not {most:?}");
    }
    assert!(leadership.is_valid());
}

async fn answers_beyond_the_limit_end_the_leadership_at_its_deadline() {
    let fake = Fake::start().await;
    let election = fake.join().await;
    let leadership = lead(&election, b"a").await.unwrap();
    let deadlines = Deadlines::of(&leadership);
    let delay = config(TTL).renew_timeout + Duration::from_millis(100);
    fake.bend_renewals(move |_, answer| Fate::Late(answer, delay));
    bent(&fake, 1).await;
    let last = deadlines.last();
    assert_eq!(soon(leadership.lost()).await, Loss::Expired);
    assert!(boot_time() >= last && boot_time() < last + SLACK);
    assert!(fake.bent() > 2, "it was tried again");
}

async fn a_renewal_whose_stream_ends_early_is_sent_again() {
    let fake = Fake::start().await;
    let election = fake.join().await;
    let leadership = lead(&election, b"a").await.unwrap();
    let deadlines = Deadlines::of(&leadership);
    let before = deadlines.last();
    fake.bend_renewals(|_, answer| Fate::Last(answer));
    bent(&fake, 3).await;
    assert_eq!(deadlines.last(), before, "half a renewal does not count");
    fake.heal();
    deadlines.next().await;
    assert!(leadership.is_valid());
}

async fn errors_of_etcd_cost_attempts_and_no_leadership() {
    let mut all = JoinSet::new();
    for status in errors() {
        all.spawn(async move {
            let fake = Fake::start().await;
            let election = fake.join().await;
            let leadership = lead(&election, b"a").await.unwrap();
            let deadlines = Deadlines::of(&leadership);
            let answer = status.clone();
            fake.bend_renewals(move |_, _| Fate::Refused(answer.clone()));
            bent(&fake, 2).await;
            assert!(leadership.is_valid(), "{status:?}");
            fake.heal();
            deadlines.next().await;
            assert_eq!(leadership.resign().await, Resigned::Released, "{status:?}");
        });
    }
    all.join_all().await;
}

/// What etcd answers in passing.
pub(super) fn errors() -> Vec<Status> {
    vec![
        Status::resource_exhausted("etcdserver: too many requests"),
        Status::unavailable("etcdserver: no leader"),
        Status::unavailable("etcdserver: leader changed"),
        Status::unavailable("etcdserver: request timed out"),
        Status::unknown("a text of a later version"),
        Status::data_loss("etcdserver: corrupt cluster"),
        Status::new(tonic::Code::from_i32(99), "no code of gRPC"),
    ]
}
