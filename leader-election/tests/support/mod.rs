//! A wire between the driver and the memory store, with faults by rule, and
//! what several test files share.
#![allow(dead_code, reason = "each test file uses a part")]

use std::{
    collections::BTreeMap,
    future::pending,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use async_trait::async_trait;
use leader_election::{
    CandidateId, Election, ElectionConfig, Error, ErrorKind, Grant, Leader, Leadership,
    MemoryStore, Place, Renewal, Standing, Store, StoreElection, simulated_time,
};
use tokio::sync::watch;

pub(crate) const TTL: Duration = Duration::from_secs(10);
/// What a confirmed renewal gives, counted from its send.
pub(crate) const USABLE: Duration = Duration::from_millis(9_990);

pub(crate) fn secs(seconds: f64) -> Duration {
    Duration::from_secs_f64(seconds)
}

pub(crate) fn config() -> ElectionConfig {
    ElectionConfig::for_ttl(TTL)
}

/// Runs a campaign on a task of its own.
pub(crate) fn spawn_campaign<E: Election + Clone>(
    election: &E,
    value: &'static [u8],
) -> tokio::task::JoinHandle<Leadership> {
    let election = election.clone();
    tokio::spawn(async move { election.campaign(value).await.expect("no fatal fault") })
}

/// Lets every task run until it waits for time to pass.
pub(crate) async fn settle() {
    tokio::time::sleep(Duration::from_millis(2)).await;
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Call {
    Join,
    Wait,
    Verify,
    Renew,
    Proclaim,
    Leave,
    Observe,
}

/// What happens to one call.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Trouble {
    /// The way to the store takes this long.
    pub(crate) before: Duration,
    /// The way back takes this long.
    pub(crate) after: Duration,
    pub(crate) lose_request: bool,
    pub(crate) lose_answer: bool,
    pub(crate) fail: Option<ErrorKind>,
}

impl Trouble {
    pub(crate) fn slow(before: f64, after: f64) -> Self {
        Self {
            before: secs(before),
            after: secs(after),
            ..Self::default()
        }
    }

    pub(crate) fn lost_request() -> Self {
        Self {
            lose_request: true,
            ..Self::default()
        }
    }

    pub(crate) fn lost_answer() -> Self {
        Self {
            lose_answer: true,
            ..Self::default()
        }
    }

    pub(crate) fn fails(kind: ErrorKind) -> Self {
        Self {
            fail: Some(kind),
            ..Self::default()
        }
    }
}

type Rule = Box<dyn FnMut(Call, usize) -> Trouble + Send>;

#[derive(Clone)]
pub(crate) struct Wire {
    pub(crate) store: MemoryStore,
    state: Arc<Mutex<State>>,
}

struct State {
    rule: Rule,
    sent: BTreeMap<Call, Vec<Duration>>,
    joined: Vec<CandidateId>,
}

impl Wire {
    pub(crate) fn new(store: MemoryStore) -> Self {
        let state = State {
            rule: Box::new(|_, _| Trouble::default()),
            sent: BTreeMap::new(),
            joined: Vec::new(),
        };
        Self {
            store,
            state: Arc::new(Mutex::new(state)),
        }
    }

    pub(crate) fn election(&self, config: ElectionConfig) -> StoreElection<Self> {
        StoreElection::new(self.clone(), config).with_clock(simulated_time)
    }

    /// Decides over each call from its kind and how many of it came before.
    pub(crate) fn rule(&self, rule: impl FnMut(Call, usize) -> Trouble + Send + 'static) {
        self.state().rule = Box::new(rule);
    }

    /// When the calls of a kind were sent.
    pub(crate) fn sent(&self, call: Call) -> Vec<Duration> {
        let state = self.state();
        state.sent.get(&call).cloned().unwrap_or_default()
    }

    /// The id of each attempt to join.
    pub(crate) fn joined(&self) -> Vec<CandidateId> {
        self.state().joined.clone()
    }

    fn state(&self) -> MutexGuard<'_, State> {
        // A rule may panic: that is a fault too.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    async fn carry<T>(
        &self,
        call: Call,
        answer: impl Future<Output = Result<T, Error>>,
    ) -> Result<T, Error> {
        let trouble = {
            let mut state = self.state();
            let sent = state.sent.entry(call).or_default();
            let nth = sent.len();
            sent.push(simulated_time());
            (state.rule)(call, nth)
        };
        if let Some(kind) = trouble.fail {
            return Err(Error::new(kind, "a fault of the test"));
        }
        if trouble.lose_request {
            return pending().await;
        }
        pause(trouble.before).await;
        let answer = answer.await;
        if trouble.lose_answer {
            return pending().await;
        }
        pause(trouble.after).await;
        answer
    }
}

/// No timer where there is nothing to wait for.
async fn pause(length: Duration) {
    if !length.is_zero() {
        tokio::time::sleep(length).await;
    }
}

#[async_trait]
impl Store for Wire {
    async fn join(&self, id: CandidateId, value: &[u8], ttl: Duration) -> Result<Grant, Error> {
        self.state().joined.push(id);
        self.carry(Call::Join, self.store.join(id, value, ttl))
            .await
    }

    async fn wait(&self, place: &Place, known: Standing) -> Result<Standing, Error> {
        self.carry(Call::Wait, self.store.wait(place, known)).await
    }

    async fn verify(&self, place: &Place) -> Result<Standing, Error> {
        self.carry(Call::Verify, self.store.verify(place)).await
    }

    async fn renew(&self, place: &Place) -> Result<Renewal, Error> {
        self.carry(Call::Renew, self.store.renew(place)).await
    }

    async fn proclaim(&self, place: &Place, value: &[u8]) -> Result<Standing, Error> {
        self.carry(Call::Proclaim, self.store.proclaim(place, value))
            .await
    }

    async fn leave(&self, id: CandidateId, token: Option<u64>) -> Result<(), Error> {
        self.carry(Call::Leave, self.store.leave(id, token)).await
    }

    async fn observe(&self, leader: &watch::Sender<Option<Leader>>) -> Result<(), Error> {
        self.carry(Call::Observe, self.store.observe(leader)).await
    }
}
