//! Hunts leases whose length is another than the one that was asked for.

use std::time::Duration;

use leader_election::{ElectionConfig, ErrorKind, Resigned};

use super::{Fake, Fate, TTL, bent, lead};
use crate::{boot_time, soon};

/// Whose numbers fit a lease of 3 s, too.
fn roomy() -> ElectionConfig {
    crate::config(4).with_reserve(Duration::ZERO)
}

/// Waits until nothing of a candidate is left.
async fn emptied(fake: &Fake) {
    let all = async {
        while fake.candidates() > 0 || fake.change(|model| model.leases()) > 0 {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    };
    soon(all).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_longer_lease_than_asked_for_is_refused_and_given_back() {
    let fake = Fake::start().await;
    let election = fake.join().await;
    fake.bend_grants(|model, mut answer| {
        answer.ttl += 1;
        model.set_ttl(answer.id, answer.ttl);
        Fate::Changed(answer)
    });
    let error = lead(&election, b"a").await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Invalid);
    let (text, wanted) = (error.to_string(), format!("{} s", TTL + 1));
    assert!(text.contains(&wanted), "{text}");
    assert_eq!(fake.bent(), 1, "no retry can help");
    emptied(&fake).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_shorter_lease_than_asked_for_gives_a_nearer_deadline() {
    let fake = Fake::start().await;
    let election = fake.join_as(roomy()).await;
    fake.bend_grants(|model, mut answer| {
        answer.ttl = 3;
        model.set_ttl(answer.id, answer.ttl);
        Fate::Changed(answer)
    });
    let leadership = lead(&election, b"a").await.unwrap();
    let left = leadership.deadline().saturating_sub(boot_time());
    assert!(left < Duration::from_secs(3), "{left:?} are left");
    assert!(leadership.is_valid());
    assert_eq!(leadership.resign().await, Resigned::Released);
    assert_eq!(fake.bent(), 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_lease_too_short_for_the_settings_is_refused_and_given_back() {
    let fake = Fake::start().await;
    let election = fake.join_as(roomy()).await;
    fake.bend_grants(|model, mut answer| {
        answer.ttl = 1;
        model.set_ttl(answer.id, answer.ttl);
        Fate::Changed(answer)
    });
    let error = lead(&election, b"a").await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Invalid, "{error}");
    assert_eq!(fake.bent(), 1);
    emptied(&fake).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_lease_without_life_is_asked_for_again() {
    for ttl in [0, -1] {
        let fake = Fake::start().await;
        let election = fake.join().await;
        let mut left = 2;
        fake.bend_grants(move |_, mut answer| {
            if left == 0 {
                return Fate::Kept(answer);
            }
            left -= 1;
            answer.ttl = ttl;
            Fate::Changed(answer)
        });
        let leads = tokio::spawn(async move { lead(&election, b"a").await.unwrap() });
        bent(&fake, 1).await;
        // The lease is there: its length is asked for, and is the one that was wanted.
        let leadership = soon(leads).await.unwrap();
        assert!(leadership.is_valid());
        assert_eq!(fake.candidates(), 1);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_grant_without_an_answer_is_found_again() {
    let fake = Fake::start().await;
    let election = fake.join().await;
    let mut is_told = false;
    fake.bend_grants(move |_, answer| {
        if is_told {
            return Fate::Kept(answer);
        }
        is_told = true;
        Fate::Refused(tonic::Status::unavailable("transport is closing"))
    });
    let leadership = lead(&election, b"a").await.unwrap();
    assert_eq!(fake.change(|model| model.leases()), 1, "not a second one");
    assert_eq!(leadership.resign().await, Resigned::Released);
    assert_eq!(fake.bent(), 1);
    assert_eq!(fake.change(|model| model.leases()), 0);
}
