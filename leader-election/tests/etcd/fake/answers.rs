//! Hunts answers to transactions that are believed though they are incomplete, and
//! errors that end a campaign which a retry would win.

use etcd_client::proto::PbTxnResponse;
use leader_election::Resigned;
use tokio::task::JoinSet;
use tonic::Status;

use super::{Deadlines, Fake, Fate, bent, lead, renewals::errors};
use crate::{soon, together::together};

/// Bends this many answers to transactions.
fn spoil(fake: &Fake, count: u64, spoil: impl Fn(&mut PbTxnResponse) + Send + 'static) {
    let mut left = count;
    fake.bend_txns(move |_, _, mut answer| {
        if left == 0 {
            return Fate::Kept(answer);
        }
        left -= 1;
        spoil(&mut answer);
        Fate::Changed(answer)
    });
}

/// Campaigns while this many answers are spoiled, and checks what was won.
async fn win_beyond(count: u64, how: impl Fn(&mut PbTxnResponse) + Send + 'static) {
    let fake = Fake::start().await;
    let election = fake.join().await;
    spoil(&fake, count, how);
    let leadership = lead(&election, b"a").await.expect("it is served");
    assert_eq!(fake.bent(), count);
    let all = election.candidates().await.expect("it is served");
    assert_eq!(all.len(), 1, "one place, however often it was asked for");
    assert_eq!(all[0].token, leadership.token());
    assert_eq!(all[0].scope, leadership.scope());
    assert_eq!(leadership.resign().await, Resigned::Released);
    assert_eq!(fake.candidates(), 0);
}

together! {
    answers_are_bent:
    an_answer_without_a_header_is_no_answer,
    an_answer_without_its_reads_is_no_answer,
    an_answer_without_its_first_read_is_no_answer,
    an_answer_without_its_last_read_is_no_answer,
    an_answer_with_empty_steps_is_no_answer,
    a_scope_is_never_one_that_etcd_does_not_have,
    an_incomplete_proof_confirms_no_renewal_and_ends_no_leadership,
    an_error_in_passing_ends_no_campaign,
    a_resign_whose_answer_is_an_error_is_repeated_until_it_is_known,
}

async fn an_answer_without_a_header_is_no_answer() {
    win_beyond(3, |answer| answer.header = None).await;
}

async fn an_answer_without_its_reads_is_no_answer() {
    win_beyond(4, |answer| answer.responses.clear()).await;
}

async fn an_answer_without_its_first_read_is_no_answer() {
    win_beyond(4, |answer| drop(answer.responses.remove(0))).await;
}

async fn an_answer_without_its_last_read_is_no_answer() {
    win_beyond(4, |answer| drop(answer.responses.pop())).await;
}

async fn an_answer_with_empty_steps_is_no_answer() {
    let empty = |answer: &mut PbTxnResponse| {
        answer
            .responses
            .iter_mut()
            .for_each(|step| step.response = None);
    };
    win_beyond(4, empty).await;
}

async fn a_scope_is_never_one_that_etcd_does_not_have() {
    let fake = Fake::start().await;
    let election = fake.join().await;
    let scope = election.scope().await.unwrap();
    type Spoil = fn(&mut PbTxnResponse);
    // The client panics at the second one.
    let ways: [Spoil; 2] = [
        |answer| answer.responses.clear(),
        |answer| answer.responses[0].response = None,
    ];
    for way in ways {
        spoil(&fake, 1, way);
        let other = election.scope().await;
        assert!(other.is_err(), "{other:?}, not {scope}");
    }
    assert_eq!(fake.bent(), 2);
    assert_eq!(election.scope().await.unwrap(), scope);
}

async fn an_incomplete_proof_confirms_no_renewal_and_ends_no_leadership() {
    type Spoil = fn(&mut PbTxnResponse);
    let ways: [Spoil; 3] = [
        |answer| answer.header = None,
        |answer| answer.responses.clear(),
        |answer| drop(answer.responses.remove(0)),
    ];
    let mut all = JoinSet::new();
    for way in ways {
        all.spawn(async move {
            let fake = Fake::start().await;
            let election = fake.join().await;
            let leadership = lead(&election, b"a").await.unwrap();
            let deadlines = Deadlines::of(&leadership);
            let before = deadlines.last();
            // The leader's own watch reads once as it begins.
            fake.watched(1).await;
            spoil(&fake, 2, way);
            bent(&fake, 2).await;
            assert_eq!(deadlines.last(), before);
            deadlines.next().await;
            assert!(leadership.is_valid());
        });
    }
    all.join_all().await;
}

async fn an_error_in_passing_ends_no_campaign() {
    let mut all = JoinSet::new();
    for status in errors() {
        all.spawn(an_error_ends_no_campaign(status));
    }
    all.join_all().await;
}

async fn an_error_ends_no_campaign(status: Status) {
    let fake = Fake::start().await;
    let election = fake.join().await;
    let mut left = 3;
    let answer = status.clone();
    fake.bend_txns(move |_, _, kept| {
        if left == 0 {
            return Fate::Kept(kept);
        }
        left -= 1;
        // What was asked for is done all the same.
        Fate::Refused(answer.clone())
    });
    let leadership = lead(&election, b"a").await.unwrap();
    assert_eq!(fake.bent(), 3, "{status:?}");
    assert_eq!(fake.candidates(), 1, "{status:?}");
    assert_eq!(leadership.resign().await, Resigned::Released, "{status:?}");
}

async fn a_resign_whose_answer_is_an_error_is_repeated_until_it_is_known() {
    for status in errors() {
        let fake = Fake::start().await;
        let election = fake.join().await;
        let leadership = lead(&election, b"a").await.unwrap();
        let mut is_told = false;
        let answer = status.clone();
        fake.bend_txns(move |_, asked, kept| {
            if is_told || asked.compare.is_empty() {
                return Fate::Kept(kept);
            }
            is_told = true;
            Fate::Refused(answer.clone())
        });
        assert_eq!(
            soon(leadership.resign()).await,
            Resigned::Released,
            "{status:?}"
        );
        assert_eq!(fake.bent(), 1);
        assert_eq!(fake.change(|model| model.leases()), 0, "{status:?}");
    }
}
