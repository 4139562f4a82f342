//! Hunts wins with a key that is gone: what etcd's Go recipe, and the server's own
//! election call, report to a candidate whose lease ended while it waited.

use leader_election::{Leadership, Resigned, etcd::EtcdElection};
use tokio::task::JoinHandle;

use crate::{
    campaign,
    child::{News, Orders, Words},
    join, join_at, key_and_lease, lead,
    proxy::{Proxy, Way},
    queued,
    server::Etcd,
    soon,
};

const ROUNDS: usize = 10;

/// A leader, one who is about to lose its place, and one behind it.
struct Queue {
    first: Leadership,
    second: JoinHandle<Leadership>,
    third: JoinHandle<Leadership>,
    /// The one that the second loses.
    token: u64,
}

async fn fill(of_second: &EtcdElection, others: &EtcdElection) -> Queue {
    let first = lead(others, b"first").await;
    let second = campaign(of_second, b"second");
    queued(others, 2).await;
    let third = campaign(others, b"third");
    queued(others, 3).await;
    let token = others.candidates().await.expect("etcd serves")[1].token;
    Queue {
        first,
        second,
        third,
        token,
    }
}

/// The third leads, and the second after it with a new key.
async fn check(queue: Queue, etcd: &Etcd, election: &EtcdElection) {
    let third = soon(queue.third).await.expect("leads");
    queued(election, 2).await;
    let all = election.candidates().await.expect("etcd serves");
    assert_eq!(
        (all[0].value.as_slice(), all[1].value.as_slice()),
        (&b"third"[..], &b"second"[..])
    );
    assert!(!queue.second.is_finished(), "it waits anew");
    assert_eq!(third.resign().await, Resigned::Released);
    let second = soon(queue.second).await.expect("leads");
    assert!(second.token() > third.token() && third.token() > queue.token);
    let (key, _) = key_and_lease(etcd, second.token()).await;
    assert_eq!(key, election.leader_key(&second));
    assert_eq!(second.resign().await, Resigned::Released);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_revoked_candidate_wins_only_with_a_new_key_from_the_back() {
    let etcd = Etcd::start().await;
    let election = join(&etcd, 10).await;
    let mut client = etcd.client().await;
    for _ in 0..ROUNDS {
        let queue = fill(&election, &election).await;
        let (_, lease) = key_and_lease(&etcd, queue.token).await;
        client.lease_revoke(lease).await.unwrap();
        queue.first.resign().await;
        check(queue, &etcd, &election).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_candidate_revoked_as_its_turn_comes_never_leads_on_without_its_key() {
    let etcd = Etcd::start().await;
    let election = join(&etcd, 10).await;
    let mut client = etcd.client().await;
    for _ in 0..ROUNDS {
        let queue = fill(&election, &election).await;
        let (_, lease) = key_and_lease(&etcd, queue.token).await;
        let (revoked, _) = tokio::join!(client.lease_revoke(lease), queue.first.resign());
        revoked.unwrap();
        end(queue, &etcd).await;
    }
}

/// Either it had won before its lease ended, and has lost again, or it has a new key.
async fn end(queue: Queue, etcd: &Etcd) {
    let second = soon(queue.second);
    let third = soon(queue.third);
    tokio::join!(
        async {
            let second = second.await.expect("leads");
            if second.token() == queue.token {
                soon(second.lost()).await;
            } else {
                key_and_lease(etcd, second.token()).await;
            }
            second.resign().await
        },
        async { third.await.expect("leads").resign().await },
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn a_candidate_cut_off_beyond_its_lease_wins_only_with_a_new_key() {
    let etcd = Etcd::start().await;
    let election = join(&etcd, 10).await;
    let proxy = Proxy::start(etcd.port()).await;
    let cut_off = join_at(&[proxy.endpoint()], 1).await;
    let queue = fill(&cut_off, &election).await;
    proxy.set(Way::Hold);
    queued(&election, 2).await;
    queue.first.resign().await;
    queued(&election, 1).await;
    assert!(proxy.held() > 0);
    // What was kept back arrives now: that the predecessor is gone, too.
    proxy.set(Way::Pass);
    check(queue, &etcd, &election).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_candidate_stopped_beyond_its_lease_wins_only_with_a_new_key() {
    let etcd = Etcd::start().await;
    let election = join(&etcd, 10).await;
    let first = lead(&election, b"first").await;
    let endpoints = [etcd.endpoint()];
    let mut words = Words::new();
    let stopped = words.start(0, &Orders::new(&endpoints, 1, "second"));
    queued(&election, 2).await;
    let third = campaign(&election, b"third");
    queued(&election, 3).await;
    let lost = election.candidates().await.unwrap()[1].token;
    stopped.stop();
    queued(&election, 2).await;
    first.resign().await;
    let third = soon(third).await.unwrap();
    stopped.go_on();
    queued(&election, 2).await;
    let new = election.candidates().await.unwrap()[1].token;
    assert!(new > third.token() && third.token() > lost);
    third.resign().await;
    let is_win = |said| matches!(said, News::Leads { .. });
    let said = words.until(|_, said| is_win(said)).await;
    let Some((_, News::Leads { token, .. })) = said.last().copied() else {
        unreachable!("ends with a win");
    };
    assert_eq!(token, new, "its first win: {said:?}");
    key_and_lease(&etcd, new).await;
}

/// Shows beside the above what this crate is spared: the server's own election call.
#[tokio::test(flavor = "multi_thread")]
async fn the_election_call_of_etcd_itself_wins_with_a_key_that_is_gone() {
    let etcd = Etcd::start().await;
    let election = join(&etcd, 10).await;
    let first = lead(&election, b"first").await;
    let mut client = etcd.client().await;
    let lease = client.lease_grant(10, None).await.unwrap().id();
    let mut waits = etcd.client().await;
    let waits = tokio::spawn(async move { waits.campaign("e", "phantom", lease).await });
    queued(&election, 2).await;
    client.lease_revoke(lease).await.unwrap();
    queued(&election, 1).await;
    first.resign().await;
    let won = soon(waits).await.unwrap().expect("it says that it has won");
    let key = won.leader().expect("it names its key").key().to_vec();
    let found = client.get(key, None).await.unwrap();
    assert_eq!(found.kvs().len(), 0, "and the key does not exist");
    assert_eq!(election.candidates().await.unwrap(), []);
}
