//! A worker that cannot be reached at first is used later without anybody's second call.

use std::net::SocketAddr;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use crate::own_hosts::{Hosts, with_own_hosts};
use crate::support::stage::{Stage, endpoint, in_time};
use crate::support::{folder, make_tree};
use bidi_session::WorkerId;
use bidi_session::tonic::Acceptor;
use examples::compute::{Counter, Node};
use examples::meta::{Ended, Hooks};
use examples::roster::{Place, Roster};
use examples::status::Status;
use examples::wire::compute_server::ComputeServer;
use tokio::net::TcpListener;
use tokio::sync::{Notify, watch};
use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;
use tonic::transport::server::TcpIncoming;
use tonic::transport::{Endpoint, Server};

/// Slows the loop down until the second worker is up, so that there is input left for it.
struct Pace {
    status: watch::Receiver<Status>,
    /// Told after the fifth commit.
    five: Arc<Notify>,
}

#[tonic::async_trait]
impl Hooks for Pace {
    async fn committed(&self, _bytes: u64) {
        let now = self.status.borrow().clone();
        if now.epochs >= 5 {
            self.five.notify_one();
        }
        if now.workers_up < 2 {
            tokio::time::sleep(Duration::from_millis(40)).await;
        }
    }

    async fn killed(&self) {
        std::future::pending().await
    }
}

fn serve(worker: &str, counter: Counter, listener: TcpListener, tasks: &mut JoinSet<()>) {
    let node = Node::start(Acceptor::new(worker, 1, 0), counter).unwrap();
    tasks.spawn(async move {
        Server::builder()
            .add_service(ComputeServer::new(node))
            .serve_with_incoming(TcpIncoming::from(listener).with_nodelay(Some(true)))
            .await
            .unwrap();
    });
}

/// Leads `w1`, which listens, and `w2` at `late`, which `appear` makes reachable
/// after five commits. Fails unless both were used and nothing was delayed.
async fn lead_with_late_worker<F: Future<Output = ()>>(
    stage: &Stage,
    late: Endpoint,
    appear: impl FnOnce(Counter) -> F,
) {
    let mut tasks = JoinSet::new();
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let first = endpoint(listener.local_addr().unwrap());
    serve("w1", stage.counter("w1"), listener, &mut tasks);
    let places = [("w1", first), ("w2", late)];
    let places = places.map(|(id, endpoint)| (WorkerId::from(id), Place::new(endpoint)));
    let workers = Roster::from(places);
    let five = Arc::new(Notify::new());
    let mut candidate = stage.candidate(workers);
    candidate.hooks = Arc::new(Pace {
        status: stage.status.subscribe(),
        five: Arc::clone(&five),
    });
    let stop = CancellationToken::new();
    let appears = async {
        five.notified().await;
        appear(stage.counter("w2")).await;
        std::future::pending().await
    };
    let ended = tokio::select! {
        ended = in_time("the loop", candidate.run(&stop)) => ended,
        () = appears => unreachable!("it is pending at its end"),
    };
    assert!(matches!(ended, Ended::Finished), "{ended:?}");
    let entries = stage.journal.entries();
    let longest = entries.latencies.iter().max().unwrap();
    println!("longest barrier {longest:?}, {:?}", entries.recoveries);
    assert!(*longest < Duration::from_secs(2), "{longest:?}");
    let joined = entries
        .recoveries
        .iter()
        .filter(|r| r.contains("w2 joined"));
    assert_eq!(joined.count(), 1, "{:?}", entries.recoveries);
    let deltas = stage.setup.store.snapshot().deltas;
    for worker in ["-w1", "-w2"] {
        assert!(deltas.iter().any(|d| d.name.ends_with(worker)), "{worker}");
    }
    stage.expect_equal();
}

fn stage(folder: &Path) -> Stage {
    let (input, out) = (folder.join("input"), folder.join("out"));
    make_tree(&input, 1_200_000);
    Stage::new(&input, &out, "2k")
}

#[tokio::test(flavor = "multi_thread")]
async fn a_worker_inserted_before_its_server_listens_is_used_when_it_does() {
    let (_kept, folder) = folder();
    let stage = stage(&folder);
    let reserved = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address: SocketAddr = reserved.local_addr().unwrap();
    drop(reserved);
    let tasks = std::sync::Mutex::new(JoinSet::new());
    let appear = async |counter| {
        let listener = TcpListener::bind(address).await.unwrap();
        serve("w2", counter, listener, &mut tasks.lock().unwrap());
    };
    lead_with_late_worker(&stage, endpoint(address), appear).await;
}

/// The system's resolver is asked, not a double: the name is missing for 3 s, and then
/// there.
#[test]
fn a_worker_whose_name_does_not_resolve_at_first_is_used_when_it_does() {
    let name = "late_worker::a_worker_whose_name_does_not_resolve_at_first_is_used_when_it_does";
    with_own_hosts(name, |hosts| {
        let runtime = tokio::runtime::Runtime::new().unwrap();
        runtime.block_on(late_name(&hosts));
    });
}

async fn late_name(hosts: &Hosts) {
    let (_kept, folder) = folder();
    let stage = stage(&folder);
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let port = listener.local_addr().unwrap().port();
    let mut tasks = JoinSet::new();
    serve("w2", stage.counter("w2"), listener, &mut tasks);
    let late = Endpoint::from_shared(format!("http://worker-2.test:{port}")).unwrap();
    let is_unknown = async || {
        let found = tokio::net::lookup_host(("worker-2.test", port)).await;
        found.is_err()
    };
    let appear = async |_| {
        assert!(is_unknown().await);
        // The wait is the fault itself: the name is missing for so long.
        tokio::time::sleep(Duration::from_secs(3)).await;
        assert!(is_unknown().await);
        hosts.add("worker-2.test");
    };
    lead_with_late_worker(&stage, late, appear).await;
}
