//! Follows who leads.

use std::collections::{BTreeMap, BTreeSet, HashMap};

use etcd_client::{Client, EventType, GetOptions, KeyValue, Txn, TxnOp, WatchResponse};
use tokio::{sync::watch, time::timeout_at};

use super::{
    keys::Keys,
    pages::{Bring, NEWEST},
    queue::{reads, token},
    store::{EtcdStore, incomplete},
    watch::{Notice, Watched},
};
use crate::{Error, Leader, clock::tokio_now};

/// For how many limits of a call a watch is relied on: by default one TTL, as the driver
/// relies on that of a candidate.
const PATIENCE: u32 = 6;

/// The queue as the watch tells it: keys only, values may be large.
#[derive(Debug, Default)]
struct Queue {
    /// By when they were created; a transaction of another client may create several.
    places: BTreeSet<(i64, Vec<u8>)>,
    created: HashMap<Vec<u8>, i64>,
}

/// The leader that is shown, and at which revision its value was written.
#[derive(Debug)]
struct Shown {
    created: i64,
    key: Vec<u8>,
    written: i64,
    leader: Leader,
}

// ===== impl Queue =====

impl Queue {
    fn first(&self) -> Option<(i64, &[u8])> {
        let (created, key) = self.places.first()?;
        Some((*created, key))
    }

    fn enter(&mut self, keys: &Keys, kv: &KeyValue) {
        if keys.is_candidate(kv.key()) {
            self.leave(kv.key());
            let key = kv.key().to_vec();
            self.places.insert((kv.create_revision(), key.clone()));
            self.created.insert(key, kv.create_revision());
        }
    }

    fn leave(&mut self, key: &[u8]) {
        if let Some((key, created)) = self.created.remove_entry(key) {
            self.places.remove(&(created, key));
        }
    }

    /// Takes in what happened; newer values of the leader that is shown are shown.
    fn take(&mut self, keys: &Keys, response: &WatchResponse, shown: &mut Option<Shown>) {
        for event in response.events() {
            let Some(kv) = event.kv() else {
                continue;
            };
            match event.event_type() {
                EventType::Delete => self.leave(kv.key()),
                EventType::Put => {
                    self.enter(keys, kv);
                    let same = shown.as_mut().filter(|shown| {
                        shown.is(kv.create_revision(), kv.key())
                            && shown.written < kv.mod_revision()
                    });
                    if let Some(shown) = same {
                        shown.written = kv.mod_revision();
                        shown.leader.value = kv.value().to_vec();
                    }
                }
            }
        }
    }
}

// ===== impl Shown =====

impl Shown {
    fn is(&self, created: i64, key: &[u8]) -> bool {
        self.created == created && self.key == key
    }
}

// ===== impl EtcdStore =====

impl EtcdStore {
    /// Shows every leader until the watch ends, or was relied on for long enough.
    pub(super) async fn follow(&self, leader: &watch::Sender<Option<Leader>>) -> Result<(), Error> {
        let limit = self.link.limit();
        let (mut queue, read) = self.list().await?;
        let mut shown = None;
        let mut until = tokio_now() + limit * PATIENCE;
        if !self.show(&queue, &mut shown, leader).await? {
            until = tokio_now() + limit;
        }
        let watched = vec![Watched::prefix(self.keys.prefix().to_vec())];
        let mut watch = self.link.watch(watched, read).await?;
        // After that the queue is read anew: a watch may live and tell of nothing.
        while let Ok(notice) = timeout_at(until, watch.next()).await {
            match notice? {
                Notice::Compacted => return Ok(()),
                Notice::Events(response) => queue.take(&self.keys, &response, &mut shown),
            }
            if !self.show(&queue, &mut shown, leader).await? {
                until = until.min(tokio_now() + limit);
            }
        }
        Ok(())
    }

    /// Returns all candidates in the order in which they lead.
    pub(super) async fn all(&self) -> Result<Vec<Leader>, Error> {
        let life = self.read_life().await?;
        let mut candidates = BTreeMap::new();
        let take = |kv: &KeyValue| {
            if self.keys.is_candidate(kv.key()) {
                let place = (kv.create_revision(), kv.key().to_vec());
                candidates.insert(place, self.leader(kv, &life));
            }
        };
        self.pages(Bring::KeysAndValues, NEWEST, take).await?;
        Ok(candidates.into_values().collect())
    }

    /// Reads of everything a little: says whether etcd serves, and lets this user read.
    pub(super) async fn probe(&self) -> Result<(), Error> {
        self.read_life().await?;
        let prefix = self.keys.prefix().to_vec();
        let options = GetOptions::new().with_prefix().with_keys_only();
        let options = options.with_limit(1);
        let call = |mut client: Client| async move { client.get(prefix, Some(options)).await };
        self.link.call(call).await.map(drop)
    }

    async fn list(&self) -> Result<(Queue, i64), Error> {
        let mut queue = Queue::default();
        let take = |kv: &KeyValue| queue.enter(&self.keys, kv);
        let read = self.pages(Bring::Keys, NEWEST, take).await?;
        Ok((queue, read))
    }

    async fn read_life(&self) -> Result<String, Error> {
        let life = self.keys.life().to_vec();
        let call = |mut client: Client| async move { client.get(life, None).await };
        let life = self.link.call(call).await?;
        Ok(life_of(life.kvs()))
    }

    /// Shows the first of the queue, whose value is read where it is not known.
    ///
    /// False where the first has left already: the watch is about to say so, unless it is
    /// out of order.
    async fn show(
        &self,
        queue: &Queue,
        shown: &mut Option<Shown>,
        leader: &watch::Sender<Option<Leader>>,
    ) -> Result<bool, Error> {
        match queue.first() {
            None => *shown = None,
            Some((created, key)) => {
                if shown.as_ref().is_none_or(|shown| !shown.is(created, key)) {
                    let Some(read) = self.read_leader(created, key).await? else {
                        return Ok(false);
                    };
                    *shown = Some(read);
                }
            }
        }
        let now_leads = shown.as_ref().map(|shown| &shown.leader);
        leader.send_if_modified(|before| {
            let differs = before.as_ref() != now_leads;
            if differs {
                *before = now_leads.cloned();
            }
            differs
        });
        Ok(true)
    }

    async fn read_leader(&self, created: i64, key: &[u8]) -> Result<Option<Shown>, Error> {
        let ops = [TxnOp::get(key, None), TxnOp::get(self.keys.life(), None)];
        let txn = Txn::new().and_then(ops);
        let call = |mut client: Client| async move { client.txn(txn).await };
        let response = self.link.call(call).await?;
        let reads = reads(&response);
        let [own, life] = reads.as_slice() else {
            return Err(incomplete());
        };
        let own = own.kvs().first();
        let own = own.filter(|kv| kv.create_revision() == created);
        Ok(own.map(|kv| Shown {
            created,
            key: key.to_vec(),
            written: kv.mod_revision(),
            leader: self.leader(kv, &life_of(life.kvs())),
        }))
    }

    fn leader(&self, kv: &KeyValue, life: &str) -> Leader {
        // Candidates of other clients alone make no life id: such tokens have no scope.
        let scope = if life.is_empty() {
            String::new()
        } else {
            self.keys.scope(life).to_string()
        };
        Leader::new(kv.value(), token(kv.create_revision()), scope)
    }
}

fn life_of(kvs: &[KeyValue]) -> String {
    let life = kvs.first().map(KeyValue::value).unwrap_or_default();
    String::from_utf8_lossy(life).into_owned()
}
