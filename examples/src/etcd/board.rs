//! A leader's look at etcd: which workers are registered, and what users ask for.

use std::path::PathBuf;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use bidi_session::WorkerId;
use etcd_client::{
    Compare, CompareOp, DeleteOptions, GetOptions, KeyValue, PutOptions, Txn, TxnOp,
};
use tokio::sync::watch;
use tonic::async_trait;

use super::keys::Keys;
use super::link::{Link, Unreachable, reads};
use super::registration::Entry;
use crate::requests::{Request, RequestKind, Requests};
use crate::roster::{Place, Roster};

/// How often it looks. A poll, not a watch: nothing can go on silently.
const EVERY: Duration = Duration::from_millis(200);

/// What is known of workers and requests; clones share it.
#[derive(Clone, Debug)]
pub struct Board {
    link: Link,
    keys: Keys,
    open: Arc<Mutex<Vec<Request>>>,
    roster: watch::Sender<Roster>,
}

// ===== impl Board =====

impl Board {
    /// Knows nothing yet.
    #[must_use]
    pub fn new(link: Link, keys: Keys) -> Self {
        Self {
            link,
            keys,
            open: Arc::default(),
            roster: watch::channel(Roster::new()).0,
        }
    }

    /// Returns the registered workers, now and later.
    #[must_use]
    pub fn roster(&self) -> watch::Receiver<Roster> {
        self.roster.subscribe()
    }

    /// Keeps looking; what was seen last stays while etcd cannot be reached.
    ///
    /// # Cancel safety
    ///
    /// Cancel safe: it only looks.
    pub async fn look(&self) {
        let mut was_reached = true;
        loop {
            match self.look_once().await {
                Ok(()) => was_reached = true,
                Err(error) if was_reached => {
                    tracing::warn!(%error, "workers and requests are as seen last");
                    was_reached = false;
                }
                Err(_) => {}
            }
            tokio::time::sleep(EVERY).await;
        }
    }

    async fn look_once(&self) -> Result<(), Unreachable> {
        let prefix = || Some(GetOptions::new().with_prefix());
        let read = self.link.txn(Txn::new().and_then([
            TxnOp::get(self.keys.workers(), prefix()),
            TxnOp::get(self.keys.requests(), prefix()),
        ]));
        let read = read.await?;
        let mut found = reads(&read);
        let (workers, requests) = (found.next(), found.next());
        let workers = workers.as_ref().map_or(&[][..], |read| read.kvs());
        let roster = workers.iter().filter_map(|kv| self.worker(kv)).collect();
        self.roster.send_if_modified(|known| {
            let is_new = !is_same(known, &roster);
            if is_new {
                *known = roster;
            }
            is_new
        });
        let requests = requests.as_ref().map_or(&[][..], |read| read.kvs());
        let mut open: Vec<Request> = requests.iter().filter_map(|kv| self.request(kv)).collect();
        open.sort_by_key(|request| request.revision);
        *self.open.lock().unwrap_or_else(PoisonError::into_inner) = open;
        Ok(())
    }

    fn worker(&self, kv: &KeyValue) -> Option<(WorkerId, Place)> {
        let id = kv.key_str().ok()?.strip_prefix(&self.keys.workers())?;
        let entry = kv
            .value_str()
            .ok()
            .and_then(|text| text.parse::<Entry>().ok());
        let place = entry.and_then(Entry::into_place);
        if place.is_none() {
            tracing::warn!(worker = id, "its entry in the registry cannot be read");
        }
        Some((WorkerId::from(id), place?))
    }

    fn request(&self, kv: &KeyValue) -> Option<Request> {
        let id = kv.key_str().ok()?.strip_prefix(&self.keys.requests())?;
        let text = kv.value_str().ok()?;
        let kind = match text.split_once(' ') {
            Some(("add", path)) => RequestKind::Add(PathBuf::from(path)),
            None if text == "finish" => RequestKind::Finish,
            _ => return None,
        };
        Some(Request {
            id: id.to_owned(),
            revision: kv.mod_revision(),
            lease: kv.lease(),
            kind,
        })
    }
}

#[async_trait]
impl Requests for Board {
    fn open(&self) -> Vec<Request> {
        let open = self.open.lock();
        open.unwrap_or_else(PoisonError::into_inner).clone()
    }

    async fn refuse(&self, request: &Request, why: &str) {
        let key = self.keys.request(&request.id);
        let lease = PutOptions::new().with_lease(request.lease);
        let answer = TxnOp::put(
            self.keys.answer(&request.id),
            format!("refused {why}"),
            Some(lease),
        );
        let is_open = Compare::mod_revision(key.clone(), CompareOp::Equal, request.revision);
        let refused = self.link.txn(
            Txn::new()
                .when([is_open])
                .and_then([TxnOp::delete(key, None::<DeleteOptions>), answer]),
        );
        if let Err(error) = refused.await {
            tracing::warn!(%error, request = request.id, "cannot be answered yet");
        }
    }
}

fn is_same(one: &Roster, other: &Roster) -> bool {
    let key = |place: &Place| (place.endpoint.uri().clone(), place.incarnation, place.slots);
    one.len() == other.len()
        && one
            .iter()
            .zip(other)
            .all(|(a, b)| a.0 == b.0 && key(a.1) == key(b.1))
}
