//! E12: leadership can be won again after a loss.

use std::time::Duration;

use leader_election::Loss;
use tokio::{
    runtime::Handle,
    time::{sleep, timeout},
};

use super::passed;
use crate::{
    boot_time, campaign,
    child::{Child, News, Orders, Words},
    join_at, lead,
    proxy::Proxy,
    queued,
    server::{Etcd, stopped_threads},
    soak, soon,
};

const TTL: Duration = Duration::from_secs(3);

pub(super) async fn stopped_candidates_that_go_on_lead_again() {
    let pause = Duration::from_secs(if soak() { 10 } else { 4 });
    let etcd = Etcd::start().await;
    let mut words = Words::new();
    let endpoints = [etcd.endpoint()];
    let orders = Orders::new(&endpoints, TTL.as_secs(), "one of three");
    let start = |number| words.start(number, &orders);
    let candidates: Vec<_> = (0..3).map(start).collect();
    let direct = join_at(&[etcd.endpoint()], TTL.as_secs()).await;
    queued(&direct, 3).await;
    let said = words
        .until(|_, said| matches!(said, News::Leads { .. }))
        .await;
    let Some((leader, News::Leads { token, .. })) = said.last().copied() else {
        unreachable!("ends with the leader's word");
    };

    candidates.iter().for_each(Child::stop);
    sleep(pause).await;
    let stopped = candidates
        .iter()
        .map(|one| stopped_threads(one.pid()))
        .sum();
    // The former leader is one of those that go on.
    let go_on = [leader, (leader + 1) % 3];
    let at = boot_time();
    go_on.iter().for_each(|number| candidates[*number].go_on());
    let is_new = |_, said| matches!(said, News::Leads { token: new, .. } if new > token);
    let wins = timeout(TTL + Duration::from_secs(2), words.until(is_new)).await;
    let (winner, _) = *wins.expect("leads in time").last().unwrap();
    assert!(go_on.contains(&winner));
    assert!(boot_time() - at <= TTL + Duration::from_secs(2));
    passed("E12", stopped);
}

#[tokio::test(flavor = "multi_thread")]
async fn revoked_leaders_lead_again_and_leak_nothing() {
    const CANDIDATES: usize = 3;
    let etcd = Etcd::start().await;
    let proxy = Proxy::start(etcd.port()).await;
    let election = join_at(&[proxy.endpoint()], 30).await;
    let mut client = etcd.client().await;
    let mut leader = lead(&election, b"a").await;
    let mut waiting = Vec::new();
    for behind in 1..CANDIDATES {
        waiting.push(campaign(&election, b"a"));
        queued(&election, behind + 1).await;
    }
    // Of a proxied connection there are tasks of the test, too.
    let tasks = Handle::current().metrics().num_alive_tasks();
    let connections = proxy.connections();
    let mut revoked = 0;
    for _ in 0..20 {
        let key = String::from_utf8(election.leader_key(&leader)).unwrap();
        let lease = i64::from_str_radix(key.rsplit('/').next().unwrap(), 16).unwrap();
        revoked += u64::from(client.lease_revoke(lease).await.is_ok());
        assert_eq!(soon(leader.lost()).await, Loss::Removed);
        waiting.push(campaign(&election, b"a"));
        let next = soon(waiting.remove(0)).await.unwrap();
        assert!(next.token() > leader.token());
        leader = next;
        queued(&election, CANDIDATES).await;
        let leases = client.leases().await.unwrap().leases().len();
        assert!(leases <= CANDIDATES, "{leases} leases");
    }
    let back = async {
        while Handle::current().metrics().num_alive_tasks() > tasks + CANDIDATES {
            sleep(Duration::from_millis(10)).await;
        }
    };
    soon(back).await;
    assert_eq!(proxy.connections(), connections);
    assert_eq!(proxy.open(), connections);
    passed("E12-revoked", revoked);
}
