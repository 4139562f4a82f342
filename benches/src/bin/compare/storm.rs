//! A thousand workers: cold connect, and the return of a server that was killed.

use std::process::ExitCode;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use benches::{Command, Connect, Flavor, Plan, Reply, Server, Service, connect, endpoint, load};
use bidi_session::{Attempt, Connector, EventKind, OpenError, Opened, Outbox, Pool, PoolConfig};
use tokio::time::{Instant, sleep, timeout};
use tonic::transport::Endpoint;

/// Workers, where the command line names no other number.
const WORKERS: usize = 1000;

/// How long the server is away.
const AWAY: Duration = Duration::from_secs(10);

/// Bounds: of the cold connect, and of the return.
const COLD_LIMIT: Duration = Duration::from_secs(5);
const BACK_LIMIT: Duration = Duration::from_secs(10);
const DIAL_LIMIT: usize = 64;

/// Counts the attempts that run at one time.
#[derive(Clone)]
struct Counted {
    inner: Connect,
    dials: Arc<Dials>,
}

#[derive(Default)]
struct Dials {
    now: AtomicUsize,
    most: AtomicUsize,
    all: AtomicUsize,
}

/// One attempt that runs.
struct Dial(Arc<Dials>);

/// Runs both and prints what they took; fails where a bound is passed.
pub(crate) fn run(workers: Option<usize>) -> ExitCode {
    let workers = workers.unwrap_or(WORKERS);
    let runtime = Flavor::Multi.runtime();
    let load_before = load();
    let is_met = runtime.block_on(storm(workers));
    println!("load before {load_before}, after {}", load());
    if is_met {
        ExitCode::SUCCESS
    } else {
        eprintln!("a bound was passed");
        ExitCode::FAILURE
    }
}

async fn storm(workers: usize) -> bool {
    let plan = Plan::new(Service::Acceptor, Flavor::Multi, workers);
    let server = Server::start(plan);
    let dials = Arc::new(Dials::default());
    let counted = Counted {
        inner: connect(),
        dials: dials.clone(),
    };
    let (pool, mut events) = Pool::new(counted, PoolConfig::new(1));
    let start = Instant::now();
    for worker in 0..workers {
        pool.insert(Server::name(worker), endpoint(server.address(worker)));
    }
    let names: Vec<String> = (0..workers).map(Server::name).collect();
    let ready = pool.ready(&names, COLD_LIMIT * 4).await;
    let cold = start.elapsed();
    let most = dials.most.load(Ordering::SeqCst);
    println!(
        "STORM phase=cold workers={workers} seconds={:.3} dials_at_once={most} is_ready={}",
        cold.as_secs_f64(),
        ready.is_ok()
    );
    let cold_dials = dials.all.load(Ordering::SeqCst);

    let plan = server.kill();
    let mut lost = 0;
    while lost < workers {
        let event = timeout(AWAY, events.recv()).await;
        let Ok(Some(event)) = event else { break };
        lost += usize::from(matches!(event.kind, EventKind::Disconnected { .. }));
    }
    sleep(AWAY).await;
    let dials_away = dials.all.load(Ordering::SeqCst) - cold_dials;
    let server = Server::start(plan);
    let start = Instant::now();
    let ready = pool.ready(&names, BACK_LIMIT * 2).await;
    let back = start.elapsed();
    let most = dials.most.load(Ordering::SeqCst);
    println!(
        "STORM phase=back workers={workers} seconds={:.3} dials_at_once={most} is_ready={} lost={lost} dials_while_away={dials_away}",
        back.as_secs_f64(),
        ready.is_ok()
    );
    drop(server);
    ready.is_ok()
        && lost == workers
        && cold <= COLD_LIMIT
        && back <= BACK_LIMIT
        && (1..=DIAL_LIMIT).contains(&most)
}

// ===== impl Counted =====

impl Connector for Counted {
    type Target = Endpoint;
    type Out = Command;
    type In = Reply;

    fn is_same(&self, one: &Endpoint, other: &Endpoint) -> bool {
        self.inner.is_same(one, other)
    }

    fn describe(&self, target: &Endpoint) -> String {
        self.inner.describe(target)
    }

    fn size(&self, message: &Command) -> usize {
        self.inner.size(message)
    }

    fn answers(&self, message: &Reply) -> Option<u64> {
        self.inner.answers(message)
    }

    fn open(
        &self,
        target: Endpoint,
        attempt: Attempt,
        outbox: Outbox<Command>,
    ) -> impl Future<Output = Result<Opened<Reply>, OpenError>> + Send + 'static {
        let opening = self.inner.open(target, attempt, outbox);
        let dials = self.dials.clone();
        async move {
            let _dial = Dial::begin(dials);
            opening.await
        }
    }
}

// ===== impl Dial =====

impl Dial {
    fn begin(dials: Arc<Dials>) -> Self {
        let now = dials.now.fetch_add(1, Ordering::SeqCst) + 1;
        dials.most.fetch_max(now, Ordering::SeqCst);
        dials.all.fetch_add(1, Ordering::SeqCst);
        Self(dials)
    }
}

impl Drop for Dial {
    fn drop(&mut self) {
        self.0.now.fetch_sub(1, Ordering::SeqCst);
    }
}
