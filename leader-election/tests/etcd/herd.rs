//! Hunts a departure that wakes more candidates than the one behind it.
//!
//! What etcd sends to watchers is read from its own count of events.

use std::time::Duration;

use leader_election::{Election, Error, Leadership, Resigned};
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::TcpStream,
    task::JoinSet,
    time::sleep,
};

use crate::{join, queued, server::Etcd, soon};

const CANDIDATES: usize = 1000;
/// Keys of another client between them: whoever deletes one watches nothing.
const BARE: usize = 20;
const RESIGNS: usize = 20;

/// Reads one of etcd's own numbers.
async fn metric(etcd: &Etcd, name: &str) -> u64 {
    let mut stream = TcpStream::connect(("127.0.0.1", etcd.port()))
        .await
        .expect("etcd serves");
    let request = "GET /metrics HTTP/1.0\r\nHost: localhost\r\n\r\n";
    let written = stream.write_all(request.as_bytes()).await;
    written.expect("etcd reads");
    let mut answer = String::new();
    let read = soon(stream.read_to_string(&mut answer)).await;
    read.expect("text");
    let mut lines = answer.lines().filter_map(|line| line.split_once(' '));
    let (_, number) = lines.find(|line| line.0 == name).expect("etcd counts it");
    number.parse().expect("a number")
}

/// Returns how many events etcd has sent to watchers since it started.
async fn events_sent(etcd: &Etcd) -> u64 {
    metric(etcd, "etcd_debugging_mvcc_events_total").await
}

/// Waits until so many watchers listen.
async fn wait_for_watchers(etcd: &Etcd, count: u64) {
    let all = async {
        while metric(etcd, "etcd_debugging_mvcc_watcher_total").await != count {
            sleep(Duration::from_millis(10)).await;
        }
    };
    soon(all).await;
}

async fn next(campaigns: &mut JoinSet<Result<Leadership, Error>>) -> Leadership {
    let won = soon(campaigns.join_next()).await.expect("candidates");
    won.expect("no panic").expect("no final error")
}

/// Waits until etcd has sent so many events, then as long again for more that must not
/// come, and returns how many it was.
async fn sent_at_least(etcd: &Etcd, before: u64, count: u64) -> u64 {
    let all = async {
        while events_sent(etcd).await < before + count {
            sleep(Duration::from_millis(10)).await;
        }
    };
    soon(all).await;
    // An event that wakes a herd is sent to all of it in one go.
    sleep(Duration::from_millis(300)).await;
    events_sent(etcd).await - before
}

#[tokio::test(flavor = "multi_thread")]
async fn a_departure_among_a_thousand_wakes_one_candidate() {
    let etcd = Etcd::start().await;
    // Renewals, and the reads of those that wait, do not matter here.
    let election = join(&etcd, 60).await;
    let mut client = etcd.client().await;
    let mut campaigns = JoinSet::new();
    let step = CANDIDATES / BARE;
    for bare in 0..BARE {
        for _ in 0..step {
            let election = election.clone();
            campaigns.spawn(async move { election.campaign(b"one of many").await });
        }
        queued(&election, (bare + 1) * step + bare).await;
        client
            .put(format!("e/bare {bare}"), "", None)
            .await
            .unwrap();
    }
    queued(&election, CANDIDATES + BARE).await;
    let mut leadership = next(&mut campaigns).await;
    // All watch their own key, and all but the leader the one before it.
    wait_for_watchers(&etcd, 2 * CANDIDATES as u64 - 1).await;

    let before = events_sent(&etcd).await;
    for bare in 0..BARE {
        client.delete(format!("e/bare {bare}"), None).await.unwrap();
    }
    // The last of them has nobody behind it.
    let wakes = BARE as u64 - 1;
    let woken = sent_at_least(&etcd, before, wakes).await;
    println!("{BARE} departures of others: {woken} events");
    assert_eq!(woken, wakes, "one for each that has somebody behind it");

    let before = events_sent(&etcd).await;
    for _ in 0..RESIGNS {
        assert_eq!(leadership.resign().await, Resigned::Released);
        let next = next(&mut campaigns).await;
        assert!(next.token() > leadership.token());
        leadership = next;
    }
    let resigns = RESIGNS as u64;
    let woken = sent_at_least(&etcd, before, resigns).await;
    println!("{RESIGNS} leaders resigned: {woken} events");
    // The one that leaves may see its own key go, too.
    assert!(woken <= 2 * resigns, "{woken}");
}
