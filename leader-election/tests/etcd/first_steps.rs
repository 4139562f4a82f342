//! What an election does when nothing fails.
#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::time::Duration;

use etcd_client::{Txn, TxnOp};
use leader_election::{Election, ErrorKind, Leader, Loss, Resigned, etcd::EtcdElection};
use tokio::time::Instant;

use crate::{campaign, config, join, lead, queued, server::Etcd, soon, together::together};

together! {
    first_steps_succeed:
    candidates_lead_one_after_another_with_rising_tokens,
    the_leader_key_is_the_one_of_the_go_recipe,
    renewals_go_on_beyond_one_ttl_and_the_token_stays,
    observers_see_each_leader_its_values_and_nobody,
    a_deleted_key_ends_the_leadership_at_once,
    nested_elections_do_not_see_each_other,
    places_of_one_transaction_are_all_seen,
    what_others_keep_under_the_name_may_be_larger_than_an_answer,
}

async fn candidates_lead_one_after_another_with_rising_tokens() {
    let etcd = Etcd::start().await;
    let election = join(&etcd, 5).await;
    let first = lead(&election, b"a").await;
    assert!(first.is_valid());
    let scope = election.scope().await.unwrap();
    assert_eq!(first.scope(), scope);
    assert!(scope.ends_with("/e") && scope.len() == 34, "{scope}");

    let second = campaign(&election, b"b");
    queued(&election, 2).await;
    let third = campaign(&election, b"c");
    queued(&election, 3).await;
    let all = election.candidates().await.unwrap();
    let values: Vec<_> = all.iter().map(|one| one.value.as_slice()).collect();
    assert_eq!(values, [b"a", b"b", b"c"]);

    assert_eq!(first.resign().await, Resigned::Released);
    assert_eq!(first.resign().await, Resigned::Released);
    assert!(!first.is_valid());
    let second = soon(second).await.unwrap();
    assert!(second.token() > first.token());
    drop(second);
    let third = soon(third).await.unwrap();
    assert_eq!(third.token(), all[2].token);
    assert_eq!(third.resign().await, Resigned::Released);

    let mut client = etcd.client().await;
    assert_eq!(client.leases().await.unwrap().leases().len(), 0);
}

async fn the_leader_key_is_the_one_of_the_go_recipe() {
    let etcd = Etcd::start().await;
    let election = join(&etcd, 5).await;
    let leadership = lead(&election, b"a").await;
    let key = election.leader_key(&leadership);
    let mut client = etcd.client().await;
    let found = client.get(key.clone(), None).await.unwrap();
    let kv = &found.kvs()[0];
    assert_eq!(kv.create_revision() as u64, leadership.token());
    let expected = format!("e/{:x}", kv.lease());
    assert_eq!(String::from_utf8(key).unwrap(), expected);
}

async fn renewals_go_on_beyond_one_ttl_and_the_token_stays() {
    let etcd = Etcd::start().await;
    let election = join(&etcd, 2).await;
    let leadership = lead(&election, b"a").await;
    let (first, token) = (leadership.deadline(), leadership.token());
    let began = Instant::now();
    while began.elapsed() < Duration::from_secs(5) {
        assert!(leadership.is_valid());
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    assert!(leadership.deadline() > first + Duration::from_secs(4));
    assert_eq!(leadership.token(), token);
}

async fn observers_see_each_leader_its_values_and_nobody() {
    let etcd = Etcd::start().await;
    let election = join(&etcd, 5).await;
    let mut seen = election.observe();
    assert_eq!(*seen.borrow_and_update(), None);
    let leadership = lead(&election, b"a").await;
    let shown = soon(seen.wait_for(Option::is_some)).await.unwrap().clone();
    let shown = shown.unwrap();
    assert_eq!(shown.value, b"a");
    assert_eq!(shown.token, leadership.token());
    assert_eq!(shown.scope, leadership.scope());
    for value in [b"b", b"c"] {
        leadership.proclaim(value).await.unwrap();
        let is_new =
            |shown: &Option<Leader>| shown.as_ref().is_some_and(|shown| shown.value == value);
        let shown = soon(seen.wait_for(is_new)).await.unwrap().clone();
        assert_eq!(shown.unwrap().token, leadership.token());
    }
    leadership.resign().await;
    soon(seen.wait_for(Option::is_none)).await.unwrap();
}

async fn places_of_one_transaction_are_all_seen() {
    let etcd = Etcd::start().await;
    // The queue is read anew after a TTL, which would hide a mistake.
    let election = join(&etcd, 300).await;
    let mut seen = election.observe();
    let mut client = etcd.client().await;
    let places = ["e/a1", "e/b2"].map(|key| TxnOp::put(key, key, None));
    client.txn(Txn::new().and_then(places)).await.unwrap();
    let all = election.candidates().await.unwrap();
    let values: Vec<_> = all.iter().map(|one| one.value.as_slice()).collect();
    assert_eq!(values, [b"e/a1", b"e/b2"]);
    for place in ["e/a1", "e/b2"] {
        let is_shown = |shown: &Option<Leader>| {
            shown
                .as_ref()
                .is_some_and(|shown| shown.value == place.as_bytes())
        };
        soon(seen.wait_for(is_shown)).await.unwrap();
        client.delete(place, None).await.unwrap();
    }
    soon(seen.wait_for(Option::is_none)).await.unwrap();
}

async fn a_deleted_key_ends_the_leadership_at_once() {
    let etcd = Etcd::start().await;
    let election = join(&etcd, 30).await;
    let leadership = lead(&election, b"a").await;
    let standby = campaign(&election, b"b");
    queued(&election, 2).await;
    let mut client = etcd.client().await;
    client
        .delete(election.leader_key(&leadership), None)
        .await
        .unwrap();
    let began = Instant::now();
    assert_eq!(soon(leadership.lost()).await, Loss::Removed);
    assert!(began.elapsed() < Duration::from_secs(1));
    let next = soon(standby).await.unwrap();
    assert!(next.token() > leadership.token());
}

async fn nested_elections_do_not_see_each_other() {
    let etcd = Etcd::start().await;
    let outer = join(&etcd, 5).await;
    let inner = EtcdElection::connect([etcd.endpoint()], "e/inner", config(5))
        .await
        .unwrap();
    let inner_leads = lead(&inner, b"inner").await;
    // More keys of the inner election than one read ahead shows.
    let waiting: Vec<_> = (0..10).map(|_| campaign(&inner, b"more")).collect();
    queued(&inner, 11).await;
    let outer_leads = lead(&outer, b"outer").await;
    assert!(outer_leads.token() > inner_leads.token());
    assert_eq!(outer.candidates().await.unwrap().len(), 1);
    waiting.iter().for_each(|task| task.abort());
}

async fn what_others_keep_under_the_name_may_be_larger_than_an_answer() {
    let etcd = Etcd::start().await;
    let mut client = etcd.client().await;
    // Keys of 6 MiB before all candidates, of which an answer takes 4 MiB.
    for n in 0..100 {
        let key = format!("e/objects/{n}{}", "k".repeat(60 << 10));
        client.put(key, "", None).await.unwrap();
    }
    let election = join(&etcd, 30).await;
    let leader = lead(&election, b"first").await;
    let large: &'static [u8] = vec![b'x'; leader_election::MAX_VALUE_BYTES].leak();
    let waiting: Vec<_> = (0..6).map(|_| campaign(&election, large)).collect();
    queued(&election, 7).await;
    let all = election.candidates().await.unwrap();
    assert!(all[1..].iter().all(|one| one.value == large));
    let mut seen = election.observe();
    let shown = soon(seen.wait_for(Option::is_some)).await.unwrap().clone();
    assert_eq!(shown.unwrap().token, leader.token());

    leader.resign().await;
    let next = |shown: &Option<Leader>| {
        shown
            .as_ref()
            .is_some_and(|shown| shown.token == all[1].token)
    };
    soon(seen.wait_for(next)).await.unwrap();
    waiting.iter().for_each(|task| task.abort());
}

#[tokio::test]
async fn wrong_settings_are_told_before_anything_is_sent() {
    let nowhere = "http://127.0.0.1:1";
    let cases: [(&[&'static str], &str, leader_election::ElectionConfig); 8] = [
        (&[nowhere], "", config(5)),
        (&[nowhere], &"n".repeat(96), config(5)),
        (&[], "e", config(5)),
        (&["127.0.0.1:2379"], "e", config(5)),
        (&["http://"], "e", config(5)),
        (&["http://127.0.0.1:99999"], "e", config(5)),
        (&["http://[::1]:"], "e", config(5)),
        (
            &[nowhere],
            "e",
            leader_election::ElectionConfig::for_ttl(Duration::from_millis(2500)),
        ),
    ];
    for (endpoints, name, config) in cases {
        let endpoints = endpoints.iter().copied();
        let error = EtcdElection::connect(endpoints, name, config).await;
        let error = error.map(|_| ()).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Invalid, "{error}");
    }
}

#[tokio::test]
async fn a_ttl_below_the_shortest_of_the_server_is_told() {
    let etcd = Etcd::start_with(&["--election-timeout", "2000"]).await;
    let election = join(&etcd, 2).await;
    let error = soon(election.campaign(b"a")).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Invalid);
    assert!(error.to_string().contains("3 s"), "{error}");
}
