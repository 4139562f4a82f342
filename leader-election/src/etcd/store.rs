//! The seam of the driver, over etcd's key-value, lease and watch calls.
//!
//! The keys are those of etcd's Go recipe, `client/v3/concurrency/election.go`, so that
//! both see each other. The server's own election call is not used: it can report a win
//! for a key that is gone.

use std::{
    sync::atomic::{AtomicBool, Ordering::Relaxed},
    time::Duration,
};

use async_trait::async_trait;
use etcd_client::{
    Client, Compare, CompareOp, Event, EventType, KeyValue, PutOptions, Txn, TxnOp, TxnResponse,
    WatchResponse,
};
use tokio::{sync::watch, time::timeout};
use tonic::Status;

use super::{
    failure::{is_lease_gone, to_error},
    floor::Floor,
    keys::{Keys, lease_of},
    link::Link,
    pages::{Bring, NEWEST},
    queue::{Ahead, Proof, View, token},
    reads::Reads,
    watch::{Notice, Watched},
};
use crate::{CandidateId, Error, ErrorKind, Grant, Leader, Loss, Place, Renewal, Standing, Store};

/// One election's queue in etcd.
#[derive(Debug)]
pub(super) struct EtcdStore {
    pub(super) keys: Keys,
    /// Everything but renewals.
    pub(super) link: Link,
    /// Renewals have a connection of their own: a stuck watch cannot delay them.
    renewals: Link,
    verifies_renewals: bool,
    /// The last read that was to verify a renewal was refused.
    is_refused: AtomicBool,
    reads: Reads,
    pub(super) floor: Floor,
}

/// What etcd answered to a renewal.
struct KeptAlive {
    ttl: Duration,
    raft_term: u64,
}

/// Of whom a watch tells that something may have changed; the higher counts.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum News {
    None,
    OfAhead,
    OfOwn,
}

// ===== impl EtcdStore =====

impl EtcdStore {
    pub(super) fn new(keys: Keys, link: Link, renewals: Link, verifies_renewals: bool) -> Self {
        Self {
            keys,
            link,
            renewals,
            verifies_renewals,
            is_refused: AtomicBool::new(false),
            reads: Reads::default(),
            floor: Floor::default(),
        }
    }

    /// Logs in as another user from now on.
    pub(super) fn set_user(&self, name: String, password: String) {
        // Both links have the same login.
        self.link.set_user(name, password);
        self.renewals.log_in_anew();
    }

    /// Reads where a place stands.
    pub(super) async fn view(&self, place: &Place) -> Result<(View, Standing), Error> {
        let floor = self.floor.seen().within(&place.scope);
        let ops = View::ops(&self.keys, place);
        let response = self.read(&self.link, ops).await?;
        let mut view = View::of(&self.keys, &response).ok_or_else(incomplete)?;
        if view.ahead == Ahead::Unknown {
            view.ahead = self.find_ahead(place, view.proof.revision).await?;
        }
        let standing = view.standing(&self.keys, place, floor);
        self.learn(place, &view.proof, standing == Standing::Gone(Loss::Reset));
        if matches!(standing, Standing::Gone(_)) {
            self.clear(place, &view.proof).await?;
        }
        Ok((view, standing))
    }

    /// Walks over all keys, where those of nested elections hide the nearest ahead.
    async fn find_ahead(&self, place: &Place, revision: u64) -> Result<Ahead, Error> {
        let mut nearest = None;
        let take = |kv: &KeyValue| {
            let created = token(kv.create_revision());
            let found = nearest.as_ref().map_or(0, |(found, _)| *found);
            if created < place.token && found < created && self.keys.is_candidate(kv.key()) {
                nearest = Some((created, kv.key().to_vec()));
            }
        };
        let revision = i64::try_from(revision).unwrap_or(NEWEST);
        self.pages(Bring::Keys, revision, take).await?;
        Ok(nearest.map_or(Ahead::Nobody, |(_, key)| Ahead::Candidate(key)))
    }

    pub(super) async fn txn(&self, txn: Txn) -> Result<TxnResponse, Error> {
        let call = |mut client: Client| async move { client.txn(txn).await };
        self.link.call(call).await
    }

    /// Reads several keys at one revision.
    async fn read(&self, link: &Link, ops: Vec<TxnOp>) -> Result<TxnResponse, Error> {
        let (txn, limit) = (Txn::new().and_then(ops), link.limit());
        let call = |mut client: Client| async move {
            let read = async move { timeout(limit, client.txn(txn)).await };
            let ended = self.reads.run(read).await;
            let late = || Status::deadline_exceeded("the read had no answer in time");
            ended
                .and_then(Result::ok)
                .unwrap_or_else(|| Err(late().into()))
        };
        link.call(call).await
    }

    async fn keep_alive(&self, lease: i64) -> Result<Option<KeptAlive>, Error> {
        let call = |mut client: Client| async move {
            // Its first answer is taken by the client, which passes on neither the TTL nor
            // the raft term.
            let (mut keeper, mut answers) = client.lease_keep_alive(lease).await?;
            keeper.keep_alive().await?;
            answers.message().await
        };
        let answer = match self.renewals.raw(call).await? {
            Ok(answer) => answer,
            Err(error) if is_lease_gone(&error) => return Ok(None),
            Err(error) => return Err(to_error(error)),
        };
        let Some(answer) = answer else {
            let text = "etcd ended the renewal";
            return Err(Error::new(ErrorKind::Unavailable, text));
        };
        let raft_term = answer.header().map_or(0, |header| header.raft_term());
        Ok(seconds(answer.ttl()).map(|ttl| KeptAlive { ttl, raft_term }))
    }

    /// Reads whether the place still exists, on the connection of the renewals.
    async fn prove(&self, place: &Place) -> Result<(Proof, Option<Loss>), Error> {
        let floor = self.floor.seen().within(&place.scope);
        let ops = Proof::ops(&self.keys, place);
        let response = self.read(&self.renewals, ops).await;
        let is_denied = |error: &Error| error.kind() == ErrorKind::Denied;
        self.is_refused
            .store(response.as_ref().is_err_and(is_denied), Relaxed);
        let response = response?;
        let proof = Proof::of(&response).ok_or_else(incomplete)?;
        let loss = proof.loss(&self.keys, place, floor);
        self.learn(place, &proof, loss == Some(Loss::Reset));
        if loss.is_some() {
            self.clear(place, &proof).await?;
        }
        Ok((proof, loss))
    }

    /// Removes the key of a place that is gone all the same: it is of another life, or was
    /// taken off its lease, and would block the others.
    async fn clear(&self, place: &Place, proof: &Proof) -> Result<(), Error> {
        if proof.has_key(place) {
            self.leave(place.id, Some(place.token)).await?;
        }
        Ok(())
    }

    /// Takes in how far etcd has come, or that it went backwards within one life.
    fn learn(&self, place: &Place, proof: &Proof, is_reset: bool) {
        if !is_reset {
            self.floor.raise(&place.scope, proof.revision);
        } else if proof.scope(&self.keys).as_ref() == Some(&place.scope) {
            self.floor.went_back(&place.scope, self.keys.life());
        }
    }
}

#[async_trait]
impl Store for EtcdStore {
    async fn join(&self, id: CandidateId, value: &[u8], ttl: Duration) -> Result<Grant, Error> {
        self.refuse_old_life().await?;
        let ttl = self.grant(lease_of(id), whole_seconds(ttl)?).await?;
        let place = match self.put(id, value).await? {
            Some(place) => place,
            None => {
                self.make_life().await?;
                let placed = self.put(id, value).await?;
                placed.ok_or_else(incomplete)?
            }
        };
        Ok(Grant::new(place, ttl))
    }

    async fn wait(&self, place: &Place, known: Standing) -> Result<Standing, Error> {
        let own = self.keys.candidate(place.id);
        let mut was_compacted = false;
        loop {
            let (view, standing) = self.view(place).await?;
            if standing != known {
                return Ok(standing);
            }
            let mut watched = vec![Watched::key(own.clone())];
            if let Ahead::Candidate(key) = view.ahead {
                watched.push(Watched::key(key));
            }
            let read = i64::try_from(view.proof.revision).unwrap_or(0);
            let mut watch = self.link.watch(watched, read).await?;
            loop {
                match watch.next().await? {
                    // The driver asks again, after a pause.
                    Notice::Compacted if was_compacted => return Ok(known),
                    Notice::Compacted => {
                        was_compacted = true;
                        break;
                    }
                    Notice::Events(response) => match news(&response, &own, place.token) {
                        News::None => {}
                        // Verified by who asks: to read the queue here too would only
                        // make the hand-over longer.
                        News::OfAhead if known == Standing::Queued => return Ok(Standing::First),
                        News::OfAhead | News::OfOwn => break,
                    },
                }
            }
        }
    }

    async fn verify(&self, place: &Place) -> Result<Standing, Error> {
        Ok(self.view(place).await?.1)
    }

    async fn renew(&self, place: &Place) -> Result<Renewal, Error> {
        if self.verifies_renewals && self.is_refused.load(Relaxed) {
            // etcd keeps a lease alive for anyone: one that can no longer be verified would
            // only block the others for longer.
            self.prove(place).await?;
        }
        let Some(kept) = self.keep_alive(lease_of(place.id)).await? else {
            let (_, loss) = self.prove(place).await?;
            return Ok(Renewal::Gone(loss.unwrap_or(Loss::Removed)));
        };
        if !self.verifies_renewals {
            return Ok(Renewal::Confirmed(kept.ttl));
        }
        let (proof, loss) = self.prove(place).await?;
        if let Some(loss) = loss {
            return Ok(Renewal::Gone(loss));
        }
        if proof.raft_term != kept.raft_term {
            // A leader that was deposed meanwhile may have answered.
            let text = "etcd changed its leader during the renewal";
            return Err(Error::new(ErrorKind::Unavailable, text));
        }
        Ok(Renewal::Confirmed(kept.ttl))
    }

    async fn proclaim(&self, place: &Place, value: &[u8]) -> Result<Standing, Error> {
        let key = self.keys.candidate(place.id);
        let created = i64::try_from(place.token).unwrap_or(i64::MAX);
        // Without the lease the key would outlive it.
        let lease = PutOptions::new().with_lease(lease_of(place.id));
        let floor = self.floor.seen().within(&place.scope);
        let reads = View::ops(&self.keys, place);
        let mut ops = vec![TxnOp::put(key.clone(), value, Some(lease))];
        ops.extend(reads.iter().cloned());
        let txn = Txn::new()
            .when([Compare::create_revision(key, CompareOp::Equal, created)])
            .and_then(ops)
            .or_else(reads);
        let response = self.txn(txn).await?;
        let view = View::of(&self.keys, &response).ok_or_else(incomplete)?;
        let standing = view.standing(&self.keys, place, floor);
        self.learn(place, &view.proof, standing == Standing::Gone(Loss::Reset));
        Ok(standing)
    }

    async fn leave(&self, id: CandidateId, token: Option<u64>) -> Result<(), Error> {
        let key = self.keys.candidate(id);
        // A key of this id without a known token is of this candidate, too: it has
        // picked the id.
        let compare = match token {
            Some(token) => {
                let created = i64::try_from(token).unwrap_or(i64::MAX);
                Compare::create_revision(key.clone(), CompareOp::Equal, created)
            }
            None => Compare::create_revision(key.clone(), CompareOp::Greater, 0),
        };
        let txn = Txn::new()
            .when([compare])
            .and_then([TxnOp::delete(key, None)]);
        self.txn(txn).await?;
        let lease = lease_of(id);
        let call = |mut client: Client| async move { client.lease_revoke(lease).await };
        match self.link.raw(call).await? {
            Ok(_) => Ok(()),
            Err(error) if is_lease_gone(&error) => Ok(()),
            Err(error) => Err(to_error(error)),
        }
    }

    async fn observe(&self, leader: &watch::Sender<Option<Leader>>) -> Result<(), Error> {
        self.follow(leader).await
    }
}

/// What events say of a place and of who is ahead of it.
fn news(response: &WatchResponse, own: &[u8], token_: u64) -> News {
    let of = |event: &Event| {
        let Some(kv) = event.kv() else {
            return News::OfOwn;
        };
        match (event.event_type(), kv.key() == own) {
            (EventType::Delete, true) => News::OfOwn,
            (EventType::Delete, false) => News::OfAhead,
            (EventType::Put, true) if token(kv.create_revision()) != token_ => News::OfOwn,
            (EventType::Put, _) => News::None,
        }
    };
    response.events().iter().map(of).max().unwrap_or(News::None)
}

/// Returns a TTL as etcd counts it.
pub(super) fn whole_seconds(ttl: Duration) -> Result<i64, Error> {
    if ttl.subsec_nanos() != 0 || ttl.is_zero() {
        let text = format!("the ttl {ttl:?} is not of whole seconds, as leases of etcd are");
        return Err(Error::new(ErrorKind::Invalid, text));
    }
    Ok(i64::try_from(ttl.as_secs()).unwrap_or(i64::MAX))
}

/// A TTL that etcd has answered; `None` where the lease is gone.
pub(super) fn seconds(ttl: i64) -> Option<Duration> {
    let ttl = u64::try_from(ttl).ok().filter(|ttl| *ttl > 0)?;
    Some(Duration::from_secs(ttl))
}

pub(super) fn incomplete() -> Error {
    Error::new(ErrorKind::Unavailable, "etcd's answer is incomplete")
}
