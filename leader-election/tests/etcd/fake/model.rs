//! What the fake keeps: keys with their revisions, leases that never end by themselves,
//! and all that ever happened.

use std::collections::{BTreeMap, BTreeSet};

use etcd_client::{
    EventType,
    proto::{
        PbCompare, PbDeleteResponse, PbEvent, PbKeyValue, PbPutRequest, PbPutResponse,
        PbRangeRequest, PbRangeResponse, PbResponseHeader, PbResponseOp, PbTargetUnion,
        PbTxnOpRequest, PbTxnOpResponse, PbTxnRequest, PbTxnRequestOp, PbTxnResponse,
    },
};
use tonic::Status;

/// The numbers of etcd's protocol.
const GREATER: i32 = 1;
const DESCEND: i32 = 2;

#[derive(Debug)]
pub(super) struct Model {
    pub(super) revision: i64,
    pub(super) raft_term: u64,
    keys: BTreeMap<Vec<u8>, PbKeyValue>,
    leases: BTreeMap<i64, i64>,
    /// Every event, with the revision at which it happened.
    pub(super) events: Vec<(i64, PbEvent)>,
}

// ===== impl Model =====

impl Model {
    pub(super) fn new() -> Self {
        Self {
            revision: 1,
            raft_term: 2,
            keys: BTreeMap::new(),
            leases: BTreeMap::new(),
            events: Vec::new(),
        }
    }

    pub(super) fn header(&self) -> PbResponseHeader {
        PbResponseHeader {
            cluster_id: 1,
            member_id: 1,
            revision: self.revision,
            raft_term: self.raft_term,
        }
    }

    /// All keys that begin so.
    pub(super) fn keys_under(&self, prefix: &[u8]) -> Vec<Vec<u8>> {
        let all = self.keys.keys().filter(|key| key.starts_with(prefix));
        all.cloned().collect()
    }

    pub(super) fn leases(&self) -> usize {
        self.leases.len()
    }

    /// The keys with these create revisions.
    pub(super) fn created_at(&self, tokens: &[u64]) -> Vec<Vec<u8>> {
        let created = |kv: &&PbKeyValue| tokens.contains(&(kv.create_revision as u64));
        let found = self.keys.values().filter(created);
        found.map(|kv| kv.key.clone()).collect()
    }

    // ----- leases -----

    pub(super) fn grant(&mut self, id: i64, ttl: i64) -> Result<(), Status> {
        if self.leases.contains_key(&id) {
            let text = "etcdserver: lease already exists";
            return Err(Status::failed_precondition(text));
        }
        self.leases.insert(id, ttl);
        Ok(())
    }

    /// The TTL of a lease; zero where there is none.
    pub(super) fn ttl(&self, lease: i64) -> i64 {
        self.leases.get(&lease).copied().unwrap_or(0)
    }

    /// The lease of the key with this create revision.
    pub(super) fn lease_of(&self, token: u64) -> i64 {
        let mut all = self.keys.values();
        let kv = all.find(|kv| kv.create_revision as u64 == token);
        kv.expect("a candidate").lease
    }

    pub(super) fn set_ttl(&mut self, lease: i64, ttl: i64) {
        self.leases.insert(lease, ttl);
    }

    pub(super) fn revoke(&mut self, lease: i64) -> Result<(), Status> {
        if self.leases.remove(&lease).is_none() {
            let text = "etcdserver: requested lease not found";
            return Err(Status::not_found(text));
        }
        let of_it = self.keys.values().filter(|kv| kv.lease == lease);
        let keys: Vec<_> = of_it.map(|kv| kv.key.clone()).collect();
        self.delete(&keys);
        Ok(())
    }

    // ----- keys -----

    /// Puts a key without a value and a lease.
    pub(super) fn add(&mut self, key: &[u8]) {
        self.put(PbPutRequest {
            key: key.to_vec(),
            ..PbPutRequest::default()
        });
    }

    /// Deletes these keys at one revision.
    pub(super) fn delete(&mut self, keys: &[Vec<u8>]) {
        let gone: BTreeSet<_> = keys
            .iter()
            .filter(|key| self.keys.contains_key(*key))
            .collect();
        if gone.is_empty() {
            return;
        }
        self.revision += 1;
        for key in gone {
            self.keys.remove(key);
            let kv = PbKeyValue {
                key: key.clone(),
                mod_revision: self.revision,
                ..PbKeyValue::default()
            };
            self.note(EventType::Delete, kv);
        }
    }

    pub(super) fn range(&self, asked: &PbRangeRequest) -> PbRangeResponse {
        let found = self.keys.values().filter(|kv| {
            let is_in = is_within(&kv.key, &asked.key, &asked.range_end);
            let last = asked.max_create_revision;
            is_in && (last == 0 || kv.create_revision <= last)
        });
        let mut kvs: Vec<_> = found.cloned().collect();
        if asked.sort_order == DESCEND {
            kvs.sort_by_key(|kv| -kv.create_revision);
        }
        let count = kvs.len();
        let limit = usize::try_from(asked.limit).unwrap_or(0);
        let limit = if limit == 0 { count } else { limit };
        kvs.truncate(limit);
        if asked.keys_only {
            kvs.iter_mut().for_each(|kv| kv.value.clear());
        }
        PbRangeResponse {
            header: Some(self.header()),
            kvs,
            more: count > limit,
            count: count as i64,
        }
    }

    pub(super) fn txn(&mut self, asked: PbTxnRequest) -> Result<PbTxnResponse, Status> {
        let succeeded = asked.compare.iter().all(|compare| self.holds(compare));
        let ops = if succeeded {
            asked.success
        } else {
            asked.failure
        };
        let puts = ops.iter().filter_map(|op| match &op.request {
            Some(PbTxnOpRequest::RequestPut(put)) => Some(put.lease),
            _ => None,
        });
        if puts
            .into_iter()
            .any(|lease| lease != 0 && self.ttl(lease) == 0)
        {
            return Err(Status::not_found("etcdserver: requested lease not found"));
        }
        let responses = ops.into_iter().map(|op| self.apply(op)).collect();
        Ok(PbTxnResponse {
            header: Some(self.header()),
            succeeded,
            responses,
        })
    }

    fn holds(&self, compare: &PbCompare) -> bool {
        let created = self
            .keys
            .get(&compare.key)
            .map_or(0, |kv| kv.create_revision);
        let Some(PbTargetUnion::CreateRevision(wanted)) = compare.target_union else {
            panic!("the crate compares create revisions only: {compare:?}");
        };
        if compare.result == GREATER {
            created > wanted
        } else {
            created == wanted
        }
    }

    /// Does one step of a transaction; the crate never writes twice in one.
    fn apply(&mut self, op: PbTxnRequestOp) -> PbResponseOp {
        let response = match op.request.expect("a step says what to do") {
            PbTxnOpRequest::RequestRange(asked) => {
                PbTxnOpResponse::ResponseRange(self.range(&asked))
            }
            PbTxnOpRequest::RequestPut(put) => {
                self.put(put);
                PbTxnOpResponse::ResponsePut(PbPutResponse::default())
            }
            PbTxnOpRequest::RequestDeleteRange(asked) => {
                self.delete(&[asked.key]);
                PbTxnOpResponse::ResponseDeleteRange(PbDeleteResponse::default())
            }
            PbTxnOpRequest::RequestTxn(nested) => panic!("never nested: {nested:?}"),
        };
        PbResponseOp {
            response: Some(response),
        }
    }

    fn put(&mut self, put: PbPutRequest) {
        self.revision += 1;
        let before = self.keys.get(&put.key);
        let kv = PbKeyValue {
            create_revision: before.map_or(self.revision, |kv| kv.create_revision),
            mod_revision: self.revision,
            version: before.map_or(1, |kv| kv.version + 1),
            key: put.key,
            value: put.value,
            lease: put.lease,
        };
        self.keys.insert(kv.key.clone(), kv.clone());
        self.note(EventType::Put, kv);
    }

    fn note(&mut self, kind: EventType, kv: PbKeyValue) {
        let event = PbEvent {
            r#type: kind as i32,
            kv: Some(kv),
            prev_kv: None,
        };
        self.events.push((self.revision, event));
    }
}

/// Whether a range of etcd, or a single key, has this key.
pub(super) fn is_within(key: &[u8], first: &[u8], end: &[u8]) -> bool {
    if end.is_empty() {
        key == first
    } else {
        key >= first && key < end
    }
}
