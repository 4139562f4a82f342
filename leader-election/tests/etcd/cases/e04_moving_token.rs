//! E04: the token must not move while a leadership lasts.

use leader_election::{Election, Leader, Resigned};

use super::{Verifier, passed};
use crate::{join, lead, server::Etcd, soon};

#[tokio::test(flavor = "multi_thread")]
async fn the_token_stays_over_ten_values_and_rises_with_the_next_leadership() {
    let etcd = Etcd::start().await;
    let election = join(&etcd, 10).await;
    let mut seen = election.observe();
    let mut resource = Verifier::default();
    let leadership = lead(&election, b"0").await;
    let token = leadership.token();
    assert!(resource.admits(token));
    for number in 1..=10 {
        let value = format!("{number}").into_bytes();
        leadership.proclaim(&value).await.unwrap();
        let is_shown = |shown: &Option<Leader>| shown.as_ref().is_some_and(|s| s.value == value);
        let shown = soon(seen.wait_for(is_shown)).await.unwrap().clone();
        assert_eq!(shown.unwrap().token, token);
        assert_eq!(leadership.token(), token);
        assert!(resource.admits(leadership.token()));
    }
    // Keys that were written again: the revision that a token must not be.
    let mut client = etcd.client().await;
    let key = election.leader_key(&leadership);
    let found = client.get(key, None).await.unwrap();
    let writes = found.kvs()[0].version();
    assert!(found.kvs()[0].mod_revision() > found.kvs()[0].create_revision());

    assert_eq!(leadership.resign().await, Resigned::Released);
    let again = lead(&election, b"again").await;
    assert!(again.token() > token);
    assert!(resource.admits(again.token()));
    assert!(!resource.admits(token));
    passed("E04", u64::try_from(writes).unwrap() - 1);
}
