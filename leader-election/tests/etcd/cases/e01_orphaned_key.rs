//! E01: what a waiting candidate was about to watch is compacted.

use std::time::Duration;

use etcd_client::CompactionOptions;
use leader_election::{Election, Resigned, etcd::EtcdElection};
use tokio::time::{Instant, timeout};

use super::passed;
use crate::{
    config, join, lead,
    proxy::{Proxy, Way},
    queued,
    server::Etcd,
    soon,
};

const PROMPT: Duration = Duration::from_secs(2);

#[tokio::test(flavor = "multi_thread")]
async fn a_candidate_whose_watch_is_compacted_wins_all_the_same() {
    let etcd = Etcd::start().await;
    let proxy = Proxy::start(etcd.port()).await;
    let direct = join(&etcd, 30).await;
    let leader = lead(&direct, b"l").await;
    // Patient enough for the pause not to be taken for a stuck watch.
    let settings = config(5)
        .with_renew_every(Duration::from_secs(1))
        .with_renew_timeout(Duration::from_millis(1800))
        .with_reserve(Duration::from_millis(200));
    let candidate = EtcdElection::connect([proxy.endpoint()], "e", settings).await;
    let candidate = candidate.unwrap();

    // Its first watch of the leader's key stops on the way.
    proxy.hold_up_at(&direct.leader_key(&leader));
    let waits = {
        let candidate = candidate.clone();
        tokio::spawn(async move { candidate.campaign(b"c").await })
    };
    queued(&direct, 2).await;
    let held = async {
        while proxy.triggered() == 0 {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    };
    soon(held).await;
    let mut client = etcd.client().await;
    let mut newest = 0;
    for number in 0..200 {
        let put = client.put("unrelated", number.to_string(), None).await;
        newest = put.unwrap().header().unwrap().revision();
    }
    let physical = CompactionOptions::new().with_physical();
    client.compact(newest, Some(physical)).await.unwrap();
    proxy.set_up(Way::Pass);

    // Time for the answer that the watch begins too early.
    let name = "etcd_debugging_mvcc_db_compaction_keys_total";
    let compacted = etcd.metric(&[name]).await;
    assert_eq!(leader.resign().await, Resigned::Released);
    let won = timeout(PROMPT, waits).await;
    let won = won.expect("somebody leads").unwrap();
    let won = won.expect("recovers inside the campaign");
    assert!(won.token() > leader.token());
    assert_eq!(won.resign().await, Resigned::Released);

    // Nothing of it is left, and somebody can lead.
    assert!(direct.candidates().await.unwrap().is_empty());
    let began = Instant::now();
    lead(&direct, b"l").await;
    assert!(began.elapsed() < PROMPT);
    assert_eq!(proxy.triggered(), 1);
    passed("E01", compacted);
}
