//! The etcd backend keeps the contract, over wires that are cut.

use std::{
    collections::{HashMap, hash_map::Entry},
    sync::{
        Arc, Mutex as StdMutex, MutexGuard, Weak,
        atomic::{AtomicU64, Ordering},
    },
    thread,
    time::Duration,
};

use async_trait::async_trait;
use etcd_client::{GetOptions, KeyValue, SortOrder, SortTarget};
use leader_election::{
    Election, ElectionConfig,
    conformance::{Claim, Cut, Harness},
    etcd::EtcdElection,
};
use tokio::{sync::Mutex, time::Instant};

use crate::{
    proxy::{Proxy, Way},
    server::Etcd,
    together::block_on,
};

/// One server for all claims that run at the same time; the last one ends it.
static SERVER: Mutex<Weak<Etcd>> = Mutex::const_new(Weak::new());
static ELECTIONS: AtomicU64 = AtomicU64::new(0);

/// How many claims are checked at once: they mostly wait.
const AT_ONCE: usize = 4;
/// A leader that must not be held up by neighbors: its renewals are late already.
const ALONE: &str = "a_short_cut_costs_nothing";

/// An election of its own, with a proxy for each node.
struct Nodes {
    etcd: Arc<Etcd>,
    name: String,
    proxies: Mutex<HashMap<usize, Proxy>>,
    /// What each proxy had kept from its node when it was cut.
    before: Mutex<HashMap<usize, u64>>,
}

impl Nodes {
    async fn start() -> Self {
        let mut server = SERVER.lock().await;
        let etcd = if let Some(etcd) = server.upgrade() {
            etcd
        } else {
            let etcd = Arc::new(Etcd::start().await);
            *server = Arc::downgrade(&etcd);
            etcd
        };
        let number = ELECTIONS.fetch_add(1, Ordering::Relaxed);
        Self {
            etcd,
            name: format!("election-{number}"),
            proxies: Mutex::default(),
            before: Mutex::default(),
        }
    }

    async fn places(&self) -> Vec<KeyValue> {
        let mut client = self.etcd.client().await;
        let options = GetOptions::new()
            .with_prefix()
            .with_keys_only()
            .with_sort(SortTarget::Create, SortOrder::Ascend);
        let prefix = format!("{}/", self.name);
        let mut places = client
            .get(prefix, Some(options))
            .await
            .expect("etcd serves");
        places.take_kvs()
    }

    async fn place(&self, token: u64) -> KeyValue {
        let places = self.places().await.into_iter();
        let mut found = places.filter(|kv| kv.create_revision() as u64 == token);
        found.next().expect("the place exists")
    }
}

/// How much a proxy has kept from its node.
fn kept(proxy: &Proxy) -> u64 {
    proxy.held() + proxy.swallowed()
}

#[async_trait]
impl Harness for Nodes {
    fn ttl(&self) -> Duration {
        Duration::from_secs(2)
    }

    async fn election(&self, node: usize, config: ElectionConfig) -> Arc<dyn Election> {
        let mut proxies = self.proxies.lock().await;
        if let Entry::Vacant(free) = proxies.entry(node) {
            free.insert(Proxy::start(self.etcd.port()).await);
        }
        let endpoint = proxies[&node].endpoint();
        let election = EtcdElection::connect([endpoint], &self.name, config).await;
        Arc::new(election.expect("settings are right"))
    }

    async fn cut(&self, node: usize, cut: Cut) {
        let proxies = self.proxies.lock().await;
        let mut before = self.before.lock().await;
        before.insert(node, kept(&proxies[&node]));
        match cut {
            // What is kept back arrives afterwards, as TCP repeats it after an outage.
            Cut::Requests => proxies[&node].set(Way::Hold),
            Cut::Answers => proxies[&node].set_down(Way::Swallow),
            Cut::LateAnswers => proxies[&node].set_down(Way::Hold),
            other => panic!("{other:?} is new: cause it here"),
        }
    }

    async fn heal(&self, node: usize) {
        let proxies = self.proxies.lock().await;
        if let Some(before) = self.before.lock().await.remove(&node) {
            assert!(kept(&proxies[&node]) > before, "the cut hit nothing");
        }
        proxies[&node].set(Way::Pass);
    }

    async fn expire(&self, token: u64) {
        let lease = self.place(token).await.lease();
        let mut client = self.etcd.client().await;
        client.lease_revoke(lease).await.expect("etcd serves");
    }

    async fn delete(&self, token: u64) {
        let place = self.place(token).await;
        let mut client = self.etcd.client().await;
        client.delete(place.key(), None).await.expect("etcd serves");
    }

    async fn queue(&self) -> Vec<u64> {
        let places = self.places().await.into_iter();
        places.map(|kv| kv.create_revision() as u64).collect()
    }
}

#[test]
fn the_contract_is_kept() {
    let only = std::env::var("ONLY").unwrap_or_default();
    let wanted = Claim::all()
        .iter()
        .filter(|claim| claim.name().contains(&only));
    let (alone, others): (Vec<_>, Vec<_>) = wanted.partition(|claim| claim.name() == ALONE);
    let broken = StdMutex::new(Vec::new());
    let check = |claim: &Claim| {
        block_on(async {
            let began = Instant::now();
            let checked = claim.check(&Nodes::start().await).await;
            println!("{}: {:?}", claim.name(), began.elapsed());
            lock(&broken).extend(checked.err());
        });
    };
    alone.into_iter().for_each(check);
    let others = StdMutex::new(others.into_iter());
    let check_all = || {
        while let Some(claim) = { lock(&others).next() } {
            check(claim);
        }
    };
    thread::scope(|scope| {
        for _ in 0..AT_ONCE {
            scope.spawn(check_all);
        }
    });
    let broken = broken.into_inner().expect("no panic under it");
    assert!(broken.is_empty(), "{broken:#?}");
}

fn lock<T>(mutex: &StdMutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().expect("no panic under it")
}
