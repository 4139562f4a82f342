//! Hunts keys, leases and tasks that outlive the campaign that made them.

use std::{future::poll_fn, pin::pin, task::Poll, time::Duration};

use etcd_client::{Client, GetOptions};
use leader_election::{Election, etcd::EtcdElection};
use tokio::{
    task::JoinSet,
    time::{sleep, timeout},
};

use crate::{
    campaign, config, join, lead,
    proxy::{Proxy, Way},
    queued,
    server::Etcd,
    soak, soon,
};

const TTL: u64 = 1;

/// Waits until etcd has no lease and no candidate, at most one TTL and the 0.5 s that
/// etcd takes to see that a lease is over, with as much again for a slow machine.
async fn nothing_is_left(client: &mut Client, what: &str) {
    let empty = async {
        loop {
            let leases = client.leases().await.expect("etcd serves").leases().len();
            let keys = GetOptions::new().with_prefix().with_count_only();
            let keys = client
                .get("e", Some(keys))
                .await
                .expect("etcd serves")
                .count();
            if leases == 0 && keys == 0 {
                return;
            }
            sleep(Duration::from_millis(20)).await;
        }
    };
    let bound = 2 * (Duration::from_secs(TTL) + Duration::from_millis(500));
    timeout(bound, empty)
        .await
        .unwrap_or_else(|_| panic!("something is left of {what}"));
}

/// Polls at most `n` times, then drops the future.
async fn polled<T>(n: usize, future: impl Future<Output = T>) -> Option<T> {
    let mut future = pin!(future);
    let mut polls = 0;
    poll_fn(|cx| {
        if polls == n {
            return Poll::Ready(None);
        }
        polls += 1;
        match future.as_mut().poll(cx) {
            Poll::Ready(done) => Poll::Ready(Some(done)),
            Poll::Pending if polls == n => Poll::Ready(None),
            Poll::Pending => Poll::Pending,
        }
    })
    .await
}

#[tokio::test(flavor = "multi_thread")]
async fn a_campaign_dropped_after_n_polls_leaves_no_key_and_no_lease() {
    let etcd = Etcd::start().await;
    let election = join(&etcd, TTL).await;
    let mut client = etcd.client().await;
    let mut n = 0;
    loop {
        let won = polled(n, election.campaign(b"a")).await;
        let is_done = won.is_some();
        drop(won);
        nothing_is_left(&mut client, &format!("{n} polls")).await;
        if is_done {
            break;
        }
        n += 1;
    }
    assert!(n >= 2, "{n}");
}

/// Campaigns at `endpoint` for the election `name`, until `n` pieces were sent.
async fn sent(n: u64, proxy: &Proxy, name: &str) -> bool {
    let election = EtcdElection::connect([proxy.endpoint()], name, config(TTL)).await;
    let election = election.expect("settings are right");
    let mut sent = proxy.sent();
    let before = *sent.borrow_and_update();
    tokio::select! {
        biased;
        _ = sent.wait_for(|sent| sent - before >= n) => false,
        won = election.campaign(b"a") => won.is_ok()
    }
}

/// A poll sees only that there is no winner yet; a piece of a request on its way to
/// etcd is a step of the driver. With `lost` the wire is dead from there on: nothing
/// can be taken back.
async fn drop_at_each_request(lost: bool) {
    let etcd = Etcd::start().await;
    let mut campaigns = JoinSet::new();
    for n in 0..40 {
        let proxy = Proxy::start(etcd.port()).await;
        campaigns.spawn(async move {
            let is_won = sent(n, &proxy, &format!("e{n}")).await;
            if lost {
                proxy.set(Way::Swallow);
            }
            (is_won, proxy)
        });
    }
    let campaigns = soon(campaigns.join_all()).await;
    let mut client = etcd.client().await;
    nothing_is_left(&mut client, "campaigns that were dropped").await;
    let won = campaigns.iter().filter(|(is_won, _)| *is_won).count();
    println!(
        "{} dropped before, {won} after the win",
        campaigns.len() - won
    );
    assert!(won > 0 && won < campaigns.len(), "every request was met");
    if lost {
        let swallowed = campaigns.iter().filter(|(_, proxy)| proxy.swallowed() > 0);
        assert!(swallowed.count() > 0);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_campaign_dropped_at_any_request_leaves_no_key_and_no_lease() {
    drop_at_each_request(false).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_campaign_dropped_with_its_wire_leaves_no_key_and_no_lease() {
    drop_at_each_request(true).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_waiting_campaign_that_is_dropped_leaves_no_key_and_no_lease() {
    let etcd = Etcd::start().await;
    let election = join(&etcd, TTL).await;
    let leadership = lead(&election, b"a").await;
    let waits: Vec<_> = (0..10).map(|_| campaign(&election, b"b")).collect();
    queued(&election, 11).await;
    waits.iter().for_each(tokio::task::JoinHandle::abort);
    queued(&election, 1).await;
    drop(leadership);
    nothing_is_left(&mut etcd.client().await, "those that waited").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn many_leaderships_leave_no_lease_and_no_task() {
    let cycles = if soak() { 10_000 } else { 300 };
    let etcd = Etcd::start().await;
    let election = join(&etcd, 10).await;
    let mut client = etcd.client().await;
    lead(&election, b"a").await.resign().await;
    let metrics = tokio::runtime::Handle::current().metrics();
    // The connections of both links and of the client have their tasks by now.
    let at_rest = async {
        let mut before = metrics.num_alive_tasks();
        loop {
            sleep(Duration::from_millis(100)).await;
            let now = metrics.num_alive_tasks();
            if now == before {
                return now;
            }
            before = now;
        }
    };
    let base = soon(at_rest).await;
    let mut token = 0;
    for _ in 0..cycles {
        let leadership = lead(&election, b"a").await;
        assert!(leadership.token() > token);
        token = leadership.token();
        leadership.resign().await;
    }
    let rest = async {
        while metrics.num_alive_tasks() > base {
            sleep(Duration::from_millis(10)).await;
        }
    };
    timeout(Duration::from_secs(5), rest)
        .await
        .unwrap_or_else(|_| panic!("{} tasks, {base} before", metrics.num_alive_tasks()));
    assert_eq!(client.leases().await.unwrap().leases().len(), 0);
    println!("{cycles} cycles, {base} tasks before and after");
}
