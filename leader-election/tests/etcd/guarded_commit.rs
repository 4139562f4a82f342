//! Hunts commits of a leader that is none any more, and commits that land twice.
//!
//! The code is that of the example, which is in the documentation, too.

use std::time::Duration;

use etcd_client::{Error, KeyValue, Txn, TxnOp, TxnResponse};
use leader_election::{Leadership, etcd::EtcdElection};
use recipe::{Commit, Committed, commit, transaction};
use tokio::task::JoinHandle;

use crate::{
    campaign, join, join_at, lead,
    proxy::{Proxy, Way},
    queued,
    server::Etcd,
    soon,
};

#[path = "../../examples/guarded_commit.rs"]
#[allow(dead_code, reason = "the example is a program, too")]
mod recipe;

const HEAD: &str = "head";
const LIMIT: Duration = Duration::from_millis(500);

/// The first value of a leadership.
fn first(leadership: &Leadership) -> Commit {
    replacing(leadership, 0)
}

fn replacing(leadership: &Leadership, replaces: i64) -> Commit {
    Commit {
        key: HEAD.to_owned(),
        value: format!("{}-{replaces}", leadership.token()),
        replaces,
    }
}

/// Commits over an endpoint until the outcome is known.
async fn settled(
    endpoint: &str,
    election: &EtcdElection,
    leadership: &Leadership,
    next: &Commit,
) -> Committed {
    let guarded = transaction(election, leadership, next);
    let settles = commit(endpoint, &guarded, next, leadership.token(), LIMIT);
    soon(settles).await.expect("etcd refuses nothing")
}

async fn head(etcd: &Etcd) -> Option<KeyValue> {
    let mut client = etcd.client().await;
    let mut read = client.get(HEAD, None).await.expect("etcd serves");
    read.take_kvs().pop()
}

/// Sends the transaction on a way that holds it back, and waits until it is held.
async fn held(proxy: &Proxy, txn: Txn) -> JoinHandle<Result<TxnResponse, Error>> {
    let endpoint = proxy.endpoint();
    let mut client = soon(etcd_client::Client::connect([endpoint], None))
        .await
        .expect("whole");
    // The connection stands: all that is held is the transaction.
    soon(client.get(HEAD, None)).await.expect("whole");
    let before = proxy.held();
    proxy.set_up(Way::Hold);
    let sent = tokio::spawn(async move { client.txn(txn).await });
    let is_held = async {
        while proxy.held() == before {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    };
    soon(is_held).await;
    sent
}

#[tokio::test(flavor = "multi_thread")]
async fn the_leader_commits_and_nobody_else() {
    let etcd = Etcd::start().await;
    let endpoint = etcd.endpoint();
    let election = join(&etcd, 30).await;
    let old = lead(&election, b"old").await;
    let next = campaign(&election, b"new");
    queued(&election, 2).await;

    let done = settled(&endpoint, &election, &old, &first(&old)).await;
    let revision = head(&etcd).await.unwrap().mod_revision();
    assert_eq!(done, Committed::Done(revision));
    let mut second = first(&old);
    second.value.push('x');
    let outcome = settled(&endpoint, &election, &old, &second).await;
    assert_eq!(outcome, Committed::Overtaken, "it replaces what is gone");

    old.resign().await;
    let new = soon(next).await.unwrap();
    let outcome = settled(&endpoint, &election, &old, &replacing(&old, revision)).await;
    assert_eq!(outcome, Committed::Deposed);
    assert_eq!(head(&etcd).await.unwrap().mod_revision(), revision);
    let done = settled(&endpoint, &election, &new, &replacing(&new, revision)).await;
    let head = head(&etcd).await.unwrap();
    assert_eq!(done, Committed::Done(head.mod_revision()));
    assert_eq!(head.version(), 2);
}

/// By the store alone: the deposed side still believes that it leads.
#[tokio::test(flavor = "multi_thread")]
async fn a_leader_that_knows_nothing_of_its_loss_is_refused() {
    let etcd = Etcd::start().await;
    let proxy = Proxy::start(etcd.port()).await;
    let election = join_at(&[proxy.endpoint()], 30).await;
    let old = lead(&election, b"old").await;
    proxy.set(Way::Hold);
    let mut client = etcd.client().await;
    let key = election.leader_key(&old);
    client.delete(key, None).await.unwrap();
    let outcome = settled(&etcd.endpoint(), &election, &old, &first(&old)).await;
    assert_eq!(outcome, Committed::Deposed);
    assert!(old.is_valid(), "word of it came through");
    assert!(head(&etcd).await.is_none());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_commit_whose_answer_is_lost_is_settled_as_done_once() {
    let etcd = Etcd::start().await;
    let election = join(&etcd, 30).await;
    let leadership = lead(&election, b"n").await;
    let proxy = Proxy::start(etcd.port()).await;
    let (endpoint, one) = (proxy.endpoint(), first(&leadership));
    proxy.set_down(Way::Swallow);
    let commits = settled(&endpoint, &election, &leadership, &one);
    let heals = async {
        // It has landed, and nobody but etcd knows.
        while head(&etcd).await.is_none() {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
        let swallowed = proxy.swallowed();
        proxy.set_down(Way::Pass);
        swallowed
    };
    let (done, swallowed) = soon(Box::pin(async { tokio::join!(commits, heals) })).await;
    assert!(swallowed > 0);
    let head = head(&etcd).await.unwrap();
    assert_eq!(done, Committed::Done(head.mod_revision()));
    assert_eq!((head.version(), head.value()), (1, one.value.as_bytes()));
}

#[tokio::test(flavor = "multi_thread")]
async fn an_attempt_that_arrives_late_lands_only_where_no_other_has() {
    for is_first in [false, true] {
        let etcd = Etcd::start().await;
        let election = join(&etcd, 30).await;
        let leadership = lead(&election, b"n").await;
        let proxy = Proxy::start(etcd.port()).await;
        let one = first(&leadership);
        let late = held(&proxy, transaction(&election, &leadership, &one)).await;
        let endpoint = etcd.endpoint();
        let settles = settled(&endpoint, &election, &leadership, &one);
        let (done, late) = if is_first {
            proxy.set_up(Way::Pass);
            let late = soon(late).await.unwrap().unwrap();
            (settles.await, late)
        } else {
            let done = settles.await;
            proxy.set_up(Way::Pass);
            (done, soon(late).await.unwrap().unwrap())
        };
        assert_eq!(late.succeeded(), is_first);
        let head = head(&etcd).await.unwrap();
        assert_eq!(done, Committed::Done(head.mod_revision()));
        assert_eq!((head.version(), head.value()), (1, one.value.as_bytes()));
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn an_attempt_that_arrives_after_the_end_is_refused() {
    let etcd = Etcd::start().await;
    let election = join(&etcd, 30).await;
    let old = lead(&election, b"old").await;
    let next = campaign(&election, b"new");
    queued(&election, 2).await;
    let proxy = Proxy::start(etcd.port()).await;
    let one = first(&old);
    let late = held(&proxy, transaction(&election, &old, &one)).await;
    let mut client = etcd.client().await;
    client
        .delete(election.leader_key(&old), None)
        .await
        .unwrap();
    let new = soon(next).await.unwrap();
    // Nothing is there yet: only the leader's key keeps the late one out.
    let outcome = settled(&etcd.endpoint(), &election, &old, &one).await;
    assert_eq!(outcome, Committed::Deposed);
    proxy.set_up(Way::Pass);
    assert!(!soon(late).await.unwrap().unwrap().succeeded());
    assert!(head(&etcd).await.is_none());
    let done = settled(&etcd.endpoint(), &election, &new, &first(&new)).await;
    let head = head(&etcd).await.unwrap();
    assert_eq!(done, Committed::Done(head.mod_revision()));
    assert_eq!(head.version(), 1);
}

/// What the guard is for.
#[tokio::test(flavor = "multi_thread")]
async fn without_the_guard_a_late_attempt_overwrites_the_successor() {
    let etcd = Etcd::start().await;
    let election = join(&etcd, 30).await;
    let old = lead(&election, b"old").await;
    let proxy = Proxy::start(etcd.port()).await;
    let one = first(&old);
    let unguarded = Txn::new().and_then([TxnOp::put(HEAD, one.value.as_str(), None)]);
    let late = held(&proxy, unguarded).await;
    old.resign().await;
    let new = lead(&election, b"new").await;
    let done = settled(&etcd.endpoint(), &election, &new, &first(&new)).await;
    assert!(matches!(done, Committed::Done(_)));
    proxy.set_up(Way::Pass);
    assert!(soon(late).await.unwrap().unwrap().succeeded());
    assert_eq!(head(&etcd).await.unwrap().value(), one.value.as_bytes());
}
