//! Answers that no real etcd gives on demand, from a server on the stubs of etcd's
//! client that keeps keys, leases and watches as etcd does and bends what a script names.
#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

mod answers;
mod grants;
mod model;
mod renewals;
mod round_trips;
mod script;
mod serve;
mod stale_watch;
mod watches;

use std::{
    sync::{
        Arc, Mutex, MutexGuard, PoisonError,
        atomic::{AtomicU64, Ordering},
    },
    time::Duration,
};

use etcd_client::proto::{
    PbKvServer, PbLeaseGrantResponse, PbLeaseKeepAliveResponse, PbLeaseServer, PbTxnRequest,
    PbTxnResponse, PbWatchResponse, PbWatchServer,
};
use leader_election::{
    Election, ElectionConfig, Error, Leadership,
    etcd::{EtcdElection, EtcdOptions},
};
use tokio::{sync::watch, task::JoinSet};
use tonic::transport::{Server, server::TcpIncoming};

use self::{
    model::Model,
    script::{Fate, Script},
    serve::Serves,
};
use crate::{config, soon};

/// Short, so that a test is, and long enough for a machine with other work to do.
const TTL: u64 = 3;

/// A server that plays etcd; all of it ends on drop.
pub(super) struct Fake {
    state: Arc<State>,
    port: u16,
}

/// What the calls share.
struct State {
    model: Mutex<Model>,
    script: Script,
    /// The revision that watches have to tell of.
    changed: watch::Sender<i64>,
    watches: watch::Sender<u64>,
    progress: AtomicU64,
    /// The server, and what its streams run on.
    tasks: Mutex<JoinSet<()>>,
}

/// Deadlines as the leader's side was told them.
#[derive(Clone, Default)]
struct Deadlines(Arc<Mutex<Vec<Duration>>>);

// ===== impl Fake =====

impl Fake {
    async fn start() -> Self {
        let incoming = TcpIncoming::bind(([127, 0, 0, 1], 0).into()).expect("a free port");
        let port = incoming.local_addr().expect("bound").port();
        let state = Arc::new(State {
            model: Mutex::new(Model::new()),
            script: Script::default(),
            changed: watch::Sender::new(1),
            watches: watch::Sender::new(0),
            progress: AtomicU64::new(0),
            tasks: Mutex::default(),
        });
        let serves = Serves(Arc::clone(&state));
        let server = Server::builder()
            .add_service(PbKvServer::new(serves.clone()))
            .add_service(PbLeaseServer::new(serves.clone()))
            .add_service(PbWatchServer::new(serves))
            .serve_with_incoming(incoming);
        state.spawn(async move { server.await.expect("the fake serves") });
        Self { state, port }
    }

    async fn join(&self) -> EtcdElection {
        self.join_with(EtcdOptions::default()).await
    }

    async fn join_with(&self, options: EtcdOptions) -> EtcdElection {
        let joined = EtcdElection::connect_with([self.endpoint()], "e", config(TTL), options).await;
        joined.expect("the settings are right")
    }

    async fn join_as(&self, config: ElectionConfig) -> EtcdElection {
        let joined = EtcdElection::connect([self.endpoint()], "e", config).await;
        joined.expect("the settings are right")
    }

    fn endpoint(&self) -> String {
        format!("http://127.0.0.1:{}", self.port)
    }

    // ----- faults -----

    fn bend_grants(
        &self,
        bend: impl FnMut(&mut Model, PbLeaseGrantResponse) -> Fate<PbLeaseGrantResponse>
        + Send
        + 'static,
    ) {
        *lock(&self.state.script.grant) = Some(Box::new(bend));
    }

    fn bend_renewals(
        &self,
        bend: impl FnMut(&mut Model, PbLeaseKeepAliveResponse) -> Fate<PbLeaseKeepAliveResponse>
        + Send
        + 'static,
    ) {
        *lock(&self.state.script.keep_alive) = Some(Box::new(bend));
    }

    fn bend_txns(
        &self,
        bend: impl FnMut(&mut Model, &PbTxnRequest, PbTxnResponse) -> Fate<PbTxnResponse>
        + Send
        + 'static,
    ) {
        *lock(&self.state.script.txn) = Some(Box::new(bend));
    }

    fn bend_watches(
        &self,
        bend: impl FnMut(&mut Model, PbWatchResponse) -> Fate<PbWatchResponse> + Send + 'static,
    ) {
        *lock(&self.state.script.watch) = Some(Box::new(bend));
    }

    /// Ends all faults, and returns how many answers were bent.
    fn heal(&self) -> u64 {
        let script = &self.state.script;
        *lock(&script.grant) = None;
        *lock(&script.keep_alive) = None;
        *lock(&script.txn) = None;
        *lock(&script.watch) = None;
        self.bent()
    }

    fn bent(&self) -> u64 {
        self.state.script.bent()
    }

    /// How many late answers to transactions were still wanted when they were due.
    fn late(&self) -> u64 {
        self.state.script.late()
    }

    /// How many answers about progress were sent.
    fn progress(&self) -> u64 {
        self.state.progress.load(Ordering::Relaxed)
    }

    // ----- what it keeps -----

    /// Changes what it keeps; watches tell of it.
    fn change<T>(&self, change: impl FnOnce(&mut Model) -> T) -> T {
        let changed = change(&mut self.state.model());
        self.state.tell();
        changed
    }

    /// Deletes the keys with these tokens at one revision; their leases stay.
    fn delete(&self, tokens: &[u64]) {
        self.change(|model| model.delete(&model.created_at(tokens)));
    }

    fn candidates(&self) -> usize {
        self.state.model().keys_under(b"e/").len()
    }

    /// Waits until so many watches were begun, ever.
    async fn watched(&self, count: u64) {
        let mut watches = self.state.watches.subscribe();
        let all = watches.wait_for(|watches| *watches >= count);
        soon(all).await.expect("the fake lives");
    }
}

impl Drop for Fake {
    fn drop(&mut self) {
        // They hold what holds them.
        lock(&self.state.tasks).abort_all();
    }
}

// ===== impl State =====

impl State {
    fn model(&self) -> MutexGuard<'_, Model> {
        lock(&self.model)
    }

    fn tell(&self) {
        let revision = self.model().revision;
        self.changed.send_replace(revision);
    }

    fn changes(&self) -> watch::Receiver<i64> {
        self.changed.subscribe()
    }

    fn note_watch(&self) {
        self.watches.send_modify(|watches| *watches += 1);
    }

    fn note_progress(&self) {
        self.progress.fetch_add(1, Ordering::Relaxed);
    }

    fn kept_alive(&self, id: i64) -> Fate<PbLeaseKeepAliveResponse> {
        let mut model = self.model();
        let answer = PbLeaseKeepAliveResponse {
            header: Some(model.header()),
            id,
            ttl: model.ttl(id),
        };
        self.script
            .fate(&self.script.keep_alive, &mut model, answer)
    }

    fn spawn(&self, task: impl Future<Output = ()> + Send + 'static) {
        lock(&self.tasks).spawn(task);
    }
}

// ===== impl Deadlines =====

impl Deadlines {
    fn of(leadership: &Leadership) -> Self {
        let deadlines = Self::default();
        let notes = deadlines.clone();
        leadership.follow(move |deadline| lock(&notes.0).push(deadline));
        deadlines
    }

    fn last(&self) -> Duration {
        *lock(&self.0).last().expect("told at once")
    }

    /// Waits until a renewal is confirmed.
    async fn next(&self) {
        let told = lock(&self.0).len();
        let again = async {
            while lock(&self.0).len() == told {
                tokio::time::sleep(Duration::from_millis(5)).await;
            }
        };
        soon(again).await;
    }
}

async fn lead(election: &EtcdElection, value: &[u8]) -> Result<Leadership, Error> {
    soon(election.campaign(value)).await
}

/// Waits until so many answers were bent.
async fn bent(fake: &Fake, count: u64) {
    let all = async {
        while fake.bent() < count {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    };
    soon(all).await;
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
