//! E10: an observer starts after a compaction and survives outages.

use std::time::Duration;

use etcd_client::CompactionOptions;
use leader_election::{Election, Leader};
use tokio::{sync::watch::Receiver, time::sleep};

use super::passed;
use crate::{
    campaign, join, join_at, lead,
    proxy::{Proxy, Way},
    queued,
    server::Etcd,
    soak, soon,
};

async fn shows(seen: &mut Receiver<Option<Leader>>, token: u64) {
    let is_it = |leader: &Option<Leader>| leader.as_ref().is_some_and(|one| one.token == token);
    soon(seen.wait_for(is_it)).await.expect("it never ends");
}

/// Writes this often, and compacts to the newest of it.
async fn compact(etcd: &Etcd, writes: usize) {
    let mut client = etcd.client().await;
    let mut newest = 0;
    for number in 0..writes {
        let put = client.put("unrelated", number.to_string(), None).await;
        newest = put.unwrap().header().unwrap().revision();
    }
    let physical = CompactionOptions::new().with_physical();
    client.compact(newest, Some(physical)).await.unwrap();
}

pub(super) async fn an_observer_survives_compaction_and_outages() {
    let outage = Duration::from_secs(if soak() { 10 } else { 1 });
    let mut etcd = Etcd::start().await;
    let proxy = Proxy::start(etcd.port()).await;
    let direct = join(&etcd, 30).await;
    let mut leader = lead(&direct, b"0").await;
    compact(&etcd, 500).await;
    let name = "etcd_debugging_mvcc_db_compaction_keys_total";
    let compacted = etcd.metric(&[name]).await;

    let observer = join_at(&[proxy.endpoint()], 3).await;
    let mut seen = observer.observe();
    let first = soon(seen.wait_for(Option::is_some)).await.unwrap().clone();
    assert_eq!(first.unwrap().token, leader.token());
    // Every leader that is shown, in order.
    let mut all = observer.observe();
    let collected = tokio::spawn(async move {
        let mut tokens = Vec::new();
        while all.changed().await.is_ok() {
            tokens.extend(all.borrow_and_update().as_ref().map(|leader| leader.token));
        }
        tokens
    });

    for is_cut in [false, true] {
        if is_cut {
            proxy.cut(true);
        } else {
            proxy.set(Way::Swallow);
        }
        // The leader changes while nothing is seen, and the history goes.
        let next = campaign(&direct, b"next");
        queued(&direct, 2).await;
        leader.resign().await;
        leader = soon(next).await.unwrap();
        compact(&etcd, 1).await;
        sleep(outage).await;
        assert_ne!(seen.borrow().as_ref().unwrap().token, leader.token());
        proxy.set(Way::Pass);
        proxy.cut(false);
        shows(&mut seen, leader.token()).await;
    }
    etcd.kill();
    sleep(outage).await;
    etcd.restart().await;
    let next = campaign(&direct, b"next");
    queued(&direct, 2).await;
    leader.resign().await;
    let leader = soon(next).await.unwrap();
    shows(&mut seen, leader.token()).await;

    drop((seen, observer));
    let shown = soon(collected).await.unwrap();
    assert!(
        shown.is_sorted(),
        "an older leader after a newer one: {shown:?}"
    );
    assert!(compacted > 0);
    passed(
        "E10",
        proxy.swallowed().min(proxy.ended()).min(proxy.refused()),
    );
}
