//! Takes a place: a lease, the store's life id, and a key.

use std::time::Duration;

use etcd_client::{
    Client, Compare, CompareOp, GetOptions, KeyValue, LeaseGrantOptions, PutOptions,
    ResponseHeader, Txn, TxnOp,
};

use super::{
    failure::{is_lease_taken, to_error},
    keys::lease_of,
    queue::{reads, token},
    store::{EtcdStore, incomplete, seconds},
};
use crate::{CandidateId, Error, ErrorKind, Place, Store};

// ===== impl EtcdStore =====

impl EtcdStore {
    /// Grants the lease of a place, or finds it granted by an earlier call.
    pub(super) async fn grant(&self, lease: i64, asked: i64) -> Result<Duration, Error> {
        let options = LeaseGrantOptions::new().with_id(lease);
        let call =
            |mut client: Client| async move { client.lease_grant(asked, Some(options)).await };
        let granted = match self.link.raw(call).await? {
            Ok(grant) => grant.ttl(),
            Err(error) if is_lease_taken(&error) => {
                let call = |mut client: Client| async move {
                    client.lease_time_to_live(lease, None).await
                };
                self.link.call(call).await?.granted_ttl()
            }
            Err(error) => return Err(to_error(error)),
        };
        if granted > asked {
            let text = format!(
                "etcd raised the ttl of {asked} s to {granted} s, its shortest: ask for that"
            );
            return Err(Error::new(ErrorKind::Invalid, text));
        }
        seconds(granted).ok_or_else(|| {
            let text = "the lease ended before its key was written";
            Error::new(ErrorKind::Unavailable, text)
        })
    }

    /// Puts the key of a place, unless it is there already. `None` where the store's
    /// life id has to be made first.
    pub(super) async fn put(&self, id: CandidateId, value: &[u8]) -> Result<Option<Place>, Error> {
        let floor = self.floor.seen();
        let key = self.keys.candidate(id);
        let lease = PutOptions::new().with_lease(lease_of(id));
        let read = TxnOp::get(self.keys.life(), None);
        let found = TxnOp::get(key.clone(), Some(GetOptions::new().with_keys_only()));
        let txn = Txn::new()
            .when([
                Compare::create_revision(key.clone(), CompareOp::Equal, 0),
                Compare::create_revision(self.keys.life(), CompareOp::Greater, 0),
            ])
            .and_then([TxnOp::put(key, value, Some(lease)), read.clone()])
            .or_else([found, read]);
        let response = self.txn(txn).await?;
        let reads = reads(&response);
        let (own, life) = match (response.succeeded(), reads.as_slice()) {
            (true, [life]) => (None, life),
            (false, [own, life]) => (own.kvs().first(), life),
            _ => return Err(incomplete()),
        };
        let Some(life) = life.kvs().first() else {
            return Ok(None);
        };
        let revision = response.header().map(ResponseHeader::revision);
        let created = if response.succeeded() {
            revision
        } else {
            own.map(KeyValue::create_revision)
        };
        let scope = self.keys.scope(&String::from_utf8_lossy(life.value()));
        let (Some(created), Some(revision)) = (created, revision.map(token)) else {
            return Err(incomplete());
        };
        let place = Place::new(id, token(created), scope);
        if revision < floor.within(&place.scope) {
            // Its token may have been another's, and its key would hold up those that
            // know of no higher revision.
            self.floor.went_back(&place.scope, self.keys.life());
            self.leave(id, Some(place.token)).await?;
            self.floor.seen().refuse(&place.scope, self.keys.life())?;
        }
        self.floor.raise(&place.scope, revision);
        Ok(Some(place))
    }

    /// Refuses a life of etcd that went backwards, before anything is written in it.
    pub(super) async fn refuse_old_life(&self) -> Result<(), Error> {
        let seen = self.floor.seen();
        if !seen.refuses_any() {
            return Ok(());
        }
        let life = self.keys.life();
        let call = |mut client: Client| async move { client.get(life, None).await };
        let found = self.link.call(call).await?;
        let Some(kv) = found.kvs().first() else {
            return Ok(());
        };
        let scope = self.keys.scope(&String::from_utf8_lossy(kv.value()));
        seen.refuse(&scope, life)
    }

    /// Makes the life id of a store that has none.
    pub(super) async fn make_life(&self) -> Result<String, Error> {
        let mut bytes = [0; 16];
        getrandom::fill(&mut bytes).map_err(|error| {
            Error::new(ErrorKind::Unavailable, "the system has no random numbers")
                .with_source(error.to_string())
        })?;
        let made = format!("{:032x}", u128::from_le_bytes(bytes));
        let life = self.keys.life();
        let txn = Txn::new()
            .when([Compare::create_revision(life, CompareOp::Equal, 0)])
            .and_then([TxnOp::put(life, made.as_str(), None)])
            .or_else([TxnOp::get(life, None)]);
        let response = self.txn(txn).await?;
        if response.succeeded() {
            return Ok(made);
        }
        let reads = reads(&response);
        let found = reads.first().and_then(|read| read.kvs().first());
        let found = found.ok_or_else(incomplete)?;
        Ok(String::from_utf8_lossy(found.value()).into_owned())
    }
}
