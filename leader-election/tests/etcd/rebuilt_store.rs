//! Hunts tokens that are handed out twice, or compared where they must not be, after
//! etcd lost data: wiped, or restored from an older snapshot.

use std::{collections::BTreeSet, time::Duration};

use leader_election::{Leadership, Loss, Resigned, etcd::EtcdElection};
use tokio::time::{Instant, timeout};

use crate::{campaign, config, join, lead, queued, server::Etcd, soon};

/// Long enough for the outage of etcd: what ends a leadership here is no deadline.
const TTL: u64 = 30;

#[tokio::test(flavor = "multi_thread")]
async fn a_wiped_etcd_is_another_scope_and_ends_the_leader_for_that_reason() {
    let mut etcd = Etcd::start().await;
    let cluster = cluster_id(&etcd).await;
    let election = join(&etcd, TTL).await;
    for _ in 0..3 {
        lead(&election, b"earlier").await.resign().await;
    }
    let leadership = lead(&election, b"a").await;
    let standby = campaign(&election, b"b");
    queued(&election, 2).await;
    etcd.restart_empty().await;
    assert_eq!(
        cluster_id(&etcd).await,
        cluster,
        "the cluster id tells nothing"
    );
    assert_eq!(soon(leadership.lost()).await, Loss::Reset);
    assert_eq!(leadership.resign().await, Resigned::AlreadyOver);
    let next = soon(standby).await.unwrap();
    assert_ne!(next.scope(), leadership.scope());
    assert!(next.token() < leadership.token(), "it starts low again");
    assert_eq!(election.scope().await.unwrap(), next.scope());
}

/// As after a restore: the places of before would block those of the new scope until their
/// leases end.
#[tokio::test(flavor = "multi_thread")]
async fn a_new_scope_begins_without_the_places_of_the_old_one() {
    let etcd = Etcd::start().await;
    let election = join(&etcd, TTL).await;
    let leadership = lead(&election, b"a").await;
    let standby = campaign(&election, b"b");
    queued(&election, 2).await;
    let began = Instant::now();
    etcd.ctl(&["del", "leader-election/life/e"]);
    assert_eq!(soon(leadership.lost()).await, Loss::Reset);
    let next = soon(standby).await.unwrap();
    assert_ne!(next.scope(), leadership.scope());
    let limits = config(TTL).renew_every + 2 * config(TTL).renew_timeout;
    assert!(began.elapsed() < limits, "{:?}", began.elapsed());
    assert_eq!(election.candidates().await.unwrap().len(), 1);
}

async fn cluster_id(etcd: &Etcd) -> u64 {
    let answer = etcd
        .client()
        .await
        .get("x", None)
        .await
        .expect("etcd serves");
    answer.header().expect("a header").cluster_id()
}

/// Pushes etcd beyond a revision with writes that have nothing to do with elections.
async fn write_until(etcd: &Etcd, revision: u64) {
    let mut client = etcd.client().await;
    loop {
        let put = client
            .put("unrelated", "", None)
            .await
            .expect("etcd serves");
        if put.header().expect("a header").revision() as u64 > revision {
            return;
        }
    }
}

/// Everything that was handed out; a token must not be there already.
#[derive(Default)]
struct HandedOut(BTreeSet<(String, u64)>);

// ===== impl HandedOut =====

impl HandedOut {
    fn note(&mut self, leadership: &Leadership) {
        let new = self
            .0
            .insert((leadership.scope().to_owned(), leadership.token()));
        assert!(new, "handed out twice: {leadership:?}");
    }
}

/// Leads `times` and gives up again.
async fn lead_and_resign(election: &EtcdElection, times: usize, handed_out: &mut HandedOut) {
    for _ in 0..times {
        let leadership = lead(election, b"for a while").await;
        handed_out.note(&leadership);
        leadership.resign().await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_restored_snapshot_hands_out_no_token_twice() {
    let mut etcd = Etcd::start().await;
    let (leader, waits) = (join(&etcd, TTL).await, join(&etcd, TTL).await);
    let mut handed_out = HandedOut::default();
    lead_and_resign(&leader, 3, &mut handed_out).await;
    let snapshot = etcd.dir().join("snapshot");
    etcd.ctl(&["snapshot", "save", snapshot.to_str().unwrap()]);
    // All of this is lost.
    lead_and_resign(&leader, 10, &mut handed_out).await;
    let leadership = lead(&leader, b"a").await;
    handed_out.note(&leadership);
    let standby = campaign(&waits, b"b");
    queued(&waits, 2).await;
    let last = waits.candidates().await.unwrap()[1].token;

    etcd.restore(&snapshot).await;
    assert_eq!(soon(leadership.lost()).await, Loss::Reset);
    let again = campaign(&leader, b"a");

    // Both know of higher tokens and refuse, also once etcd has come so far again:
    // what others were given meanwhile is not known to them.
    refuses(&etcd, &standby).await;
    write_until(&etcd, last + 100).await;
    refuses(&etcd, &standby).await;
    assert!(!again.is_finished());

    // The documented step.
    etcd.ctl(&["del", "leader-election/life/e"]);
    let mut pending = vec![standby, again];
    while !pending.is_empty() {
        let won = async {
            loop {
                let done = pending
                    .iter()
                    .position(tokio::task::JoinHandle::is_finished);
                if let Some(done) = done {
                    return pending.swap_remove(done).await.unwrap();
                }
                tokio::time::sleep(Duration::from_millis(5)).await;
            }
        };
        let won = soon(won).await;
        assert_ne!(won.scope(), leadership.scope());
        handed_out.note(&won);
        won.resign().await;
    }
    lead_and_resign(&leader, 10, &mut handed_out).await;
}

/// Nobody leads, nor stands in the way of those that know of no older state.
async fn refuses(etcd: &Etcd, standby: &tokio::task::JoinHandle<Leadership>) {
    let fresh = join(etcd, TTL).await;
    let watched = timeout(Duration::from_secs(1), async {
        while fresh.candidates().await.expect("etcd serves").is_empty() {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    });
    assert!(
        watched.await.is_err(),
        "a candidate that must refuse has a key"
    );
    assert!(!standby.is_finished());
}
