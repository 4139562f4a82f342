//! Two leaders at once: what the older one has sent comes when the younger one leads.

use std::net::SocketAddr;
use std::time::Duration;

use crate::proxy::{Mode, Proxy};
use crate::support::stage::{Stage, endpoint, in_time};
use crate::support::{folder, make_tree};
use bidi_session::WorkerId;
use bidi_session::tonic::Acceptor;
use examples::compute::{Node, serve};
use examples::meta::{Candidate, Ended};
use examples::roster::{Place, Roster};
use examples::status::Status;
use examples::store::CommitError;
use fencing::{Policy, Watchdog, WatchdogConfig};
use leader_election::{ElectionConfig, MemoryElection};
use tokio::sync::watch;
use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;

const YOUNGER: u64 = 1000;

fn rounds() -> usize {
    let is_soak = std::env::var_os("SOAK").is_some();
    if is_soak { 100 } else { 5 }
}

/// A leader of an election of its own: nobody tells it of the other.
fn leader(stage: &Stage, token: u64, roster: Roster) -> (Candidate, watch::Receiver<Status>) {
    let config = WatchdogConfig::default().with_policy(Policy::CancelOnly);
    let mut candidate = stage.candidate(roster);
    candidate.watchdog = Watchdog::start(config).unwrap();
    let config = ElectionConfig::default().with_reserve(candidate.watchdog.reserve());
    candidate.election = std::sync::Arc::new(MemoryElection::new(config, token));
    candidate.settings.interval = Duration::from_millis(10);
    let (status, seen) = watch::channel(Status::default());
    candidate.status = status;
    (candidate, seen)
}

fn roster(at: [SocketAddr; 2]) -> Roster {
    let places = ["w1", "w2"].into_iter().zip(at);
    let places = places.map(|(id, at)| (WorkerId::from(id), Place::new(endpoint(at))));
    places.collect()
}

fn worker(stage: &Stage, id: &str, serving: &mut JoinSet<()>) -> SocketAddr {
    let node = Node::start(Acceptor::new(id, 1, 0), stage.counter(id)).unwrap();
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    listener.set_nonblocking(true).unwrap();
    let address = listener.local_addr().unwrap();
    serving.spawn(async move { serve(node, listener).await.unwrap() });
    address
}

/// One encounter; returns how many bytes came late.
async fn meet(input: &std::path::Path, out: &std::path::Path) -> u64 {
    let stage = Stage::new(input, out, "4k");
    let mut serving = JoinSet::new();
    let direct = ["w1", "w2"].map(|id| worker(&stage, id, &mut serving));
    let wires = [Proxy::start(direct[0]).await, Proxy::start(direct[1]).await];
    let (older, mut seen_by_older) = leader(&stage, 1, roster([0, 1].map(|n| wires[n].address)));
    let (younger, mut seen) = leader(&stage, YOUNGER, roster(direct));
    let (stop, never) = (CancellationToken::new(), CancellationToken::new());
    let encounter = async {
        seen_by_older.wait_for(|s| s.epochs >= 2).await.unwrap();
        wires.iter().for_each(|wire| wire.set(Mode::Hold));
        while wires.iter().all(|wire| wire.kept() == 0) {
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
        let succeed = async {
            let ended = in_time("the younger one", younger.run(&never)).await;
            assert!(matches!(ended, Ended::Finished), "{ended:?}");
        };
        let release = async {
            seen.wait_for(|s| s.epochs >= 1).await.unwrap();
            wires.iter().for_each(|wire| wire.set(Mode::Pass));
        };
        tokio::join!(succeed, release);
        // It hears from every worker why it has none any more.
        let knows = |s: &Status| s.states.iter().all(|w| w.state.contains("term 1000"));
        in_time("the older one's news", seen_by_older.wait_for(knows))
            .await
            .unwrap();
        stop.cancel();
    };
    let (ended, ()) = tokio::join!(in_time("the older one", older.run(&stop)), encounter);
    assert!(matches!(ended, Ended::Stopped), "{ended:?}");
    let stale = stage.setup.store.admit_leader(1).await.unwrap_err();
    assert!(
        matches!(stale, CommitError::Stale { highest: YOUNGER }),
        "{stale}"
    );
    let terms: Vec<u64> = stage
        .setup
        .store
        .snapshot()
        .epochs
        .iter()
        .map(|e| e.term)
        .collect();
    assert!(terms.is_sorted() && terms[0] == 1, "{terms:?}");
    assert!(terms.ends_with(&[YOUNGER]), "{terms:?}");
    stage.expect_equal();
    wires.iter().map(Proxy::kept).sum()
}

#[tokio::test(flavor = "multi_thread")]
async fn what_an_older_leader_has_sent_is_refused_once_a_younger_one_leads() {
    let (_kept, folder) = folder();
    let input = folder.join("input");
    make_tree(&input, 100_000);
    let mut late = 0;
    for round in 0..rounds() {
        let out = folder.join(format!("out-{round}"));
        let bytes = Box::pin(meet(&input, &out)).await;
        assert!(bytes > 0, "nothing was held in round {round}");
        late += bytes;
    }
    println!("CASE L12 fault={late}");
}
