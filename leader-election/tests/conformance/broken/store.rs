//! A store with one fault, at the candidates' end of the wire.

use std::{
    collections::HashMap,
    future::pending,
    sync::{Arc, Mutex},
    time::Duration,
};

use async_trait::async_trait;
use leader_election::{
    CandidateId, Error, Grant, Leader, MemoryStore, Place, Renewal, Standing, Store,
    conformance::Wire, simulated_time,
};
use tokio::sync::watch;

/// What is broken.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Fault {
    TokensFall,
    EveryoneIsFirst,
    LeasesAreShorterThanTold,
    OnlyLeadersAreRenewed,
    LeasesCountFromTheReply,
    EachJoinMakesAPlace,
    PlacesAreAdoptedByValue,
    NobodyLeaves,
    TheFirstLeaves,
    TasksLeak,
    LostPlacesWin,
    PlacesEndWithTheConnection,
    RenewalsAreNotSent,
    AnyoneProclaims,
    LeasesRenewThemselves,
    GonePlacesAreRenewed,
    OnlyChangesAreObserved,
    NobodyIsNotObserved,
    OlderLeadersAreObserved,
    ObserversEndWithTheConnection,
    ValuesAreText,
}

pub(super) struct Broken {
    fault: Fault,
    wire: Wire<MemoryStore>,
    store: MemoryStore,
    places: Arc<Mutex<HashMap<Vec<u8>, Place>>>,
}

/// The other order of tokens; twice is the first.
pub(super) fn falling(token: u64) -> u64 {
    1_000_000 - token
}

impl Fault {
    pub(super) fn open(self) -> impl Fn(Wire<MemoryStore>, MemoryStore) -> Broken + Send + Sync {
        let places = Arc::default();
        move |wire, store| Broken {
            fault: self,
            wire,
            store,
            places: Arc::clone(&places),
        }
    }
}

impl Broken {
    fn is(&self, fault: Fault) -> bool {
        self.fault == fault
    }

    /// The memory store's name of a place.
    fn inner(&self, place: &Place) -> Place {
        let mut place = place.clone();
        if self.is(Fault::TokensFall) {
            place.token = falling(place.token);
        }
        place
    }

    /// What is told of a lease whose length is this.
    fn told(&self, ttl: Duration) -> Duration {
        if self.is(Fault::LeasesAreShorterThanTold) {
            ttl * 2
        } else {
            ttl
        }
    }

    fn exists(&self, place: &Place) -> bool {
        self.store.tokens().contains(&place.token)
    }

    fn seems(&self, place: &Place, standing: Standing) -> Standing {
        let exists = self.exists(&self.inner(place));
        match standing {
            Standing::Queued if self.is(Fault::EveryoneIsFirst) => Standing::First,
            Standing::Gone(_) if self.is(Fault::LostPlacesWin) && !exists => Standing::First,
            other => other,
        }
    }

    /// What is left running in the background.
    fn daemon(&self, place: Place) {
        let store = self.store.clone();
        let renews = self.is(Fault::LeasesRenewThemselves);
        tokio::spawn(async move {
            if !renews {
                pending::<()>().await;
            }
            while !matches!(store.renew(&place).await, Ok(Renewal::Gone(_))) {
                tokio::time::sleep(Duration::from_millis(100)).await;
            }
        });
    }

    async fn forward(
        &self,
        from: &mut watch::Receiver<Option<Leader>>,
        leader: &watch::Sender<Option<Leader>>,
    ) {
        let (mut older, mut is_first) = (None, true);
        loop {
            let shown = from.borrow_and_update().clone();
            let is_hidden = (is_first && self.is(Fault::OnlyChangesAreObserved))
                || (shown.is_none() && self.is(Fault::NobodyIsNotObserved));
            if !is_hidden {
                leader.send_replace(shown.clone());
            }
            if self.is(Fault::OlderLeadersAreObserved)
                && shown.is_some()
                && older.is_some()
                && older != shown
            {
                tokio::time::sleep(Duration::from_millis(50)).await;
                leader.send_replace(older);
                tokio::time::sleep(Duration::from_millis(50)).await;
            }
            older = shown;
            is_first = false;
            if from.changed().await.is_err() {
                pending::<()>().await;
            }
        }
    }
}

#[async_trait]
impl Store for Broken {
    async fn join(&self, id: CandidateId, value: &[u8], ttl: Duration) -> Result<Grant, Error> {
        if self.is(Fault::PlacesAreAdoptedByValue) {
            let places = self.places.lock().expect("no panic under it");
            if let Some(place) = places.get(value).filter(|place| self.exists(place)) {
                return Ok(Grant::new(place.clone(), ttl));
            }
        }
        let asked = match self.fault {
            Fault::EachJoinMakesAPlace => CandidateId::new(fastrand::u64(..)),
            _ => id,
        };
        let text = String::from_utf8_lossy(value);
        let value = match self.fault {
            Fault::ValuesAreText => text.as_bytes(),
            _ => value,
        };
        let lease = match self.fault {
            Fault::LeasesAreShorterThanTold => ttl / 2,
            _ => ttl,
        };
        let mut grant = self.wire.join(asked, value, lease).await?;
        if self.is(Fault::TasksLeak) || self.is(Fault::LeasesRenewThemselves) {
            self.daemon(grant.place.clone());
        }
        let mut places = self.places.lock().expect("no panic under it");
        places.insert(value.to_vec(), grant.place.clone());
        grant.place = self.inner(&grant.place);
        grant.ttl = self.told(grant.ttl);
        Ok(grant)
    }

    async fn wait(&self, place: &Place, known: Standing) -> Result<Standing, Error> {
        let changed = self.wire.wait(&self.inner(place), known).await;
        if changed.is_err() && self.is(Fault::PlacesEndWithTheConnection) {
            self.store.expire(place.token);
        }
        let standing = self.seems(place, changed?);
        if standing == known {
            pending::<()>().await;
        }
        Ok(standing)
    }

    async fn verify(&self, place: &Place) -> Result<Standing, Error> {
        let standing = self.wire.verify(&self.inner(place)).await?;
        Ok(self.seems(place, standing))
    }

    async fn renew(&self, place: &Place) -> Result<Renewal, Error> {
        let place = self.inner(place);
        let ttl = Duration::from_secs(2);
        let is_lost = !self.exists(&place) && self.is(Fault::LostPlacesWin);
        if is_lost || self.is(Fault::RenewalsAreNotSent) {
            return Ok(Renewal::Confirmed(ttl));
        }
        let waits = self.store.tokens().first() != Some(&place.token);
        if waits && self.is(Fault::OnlyLeadersAreRenewed) {
            return Ok(Renewal::Confirmed(ttl));
        }
        let sent = simulated_time();
        let late = |ttl| match self.fault {
            Fault::LeasesCountFromTheReply => ttl + (simulated_time() - sent),
            _ => ttl,
        };
        Ok(match self.wire.renew(&place).await? {
            Renewal::Confirmed(ttl) => Renewal::Confirmed(late(self.told(ttl))),
            Renewal::Gone(_) if self.is(Fault::GonePlacesAreRenewed) => Renewal::Confirmed(3 * ttl),
            gone => gone,
        })
    }

    async fn proclaim(&self, place: &Place, value: &[u8]) -> Result<Standing, Error> {
        let standing = self.wire.proclaim(&self.inner(place), value).await?;
        if self.is(Fault::AnyoneProclaims) {
            return Ok(Standing::First);
        }
        Ok(standing)
    }

    async fn leave(&self, id: CandidateId, token: Option<u64>) -> Result<(), Error> {
        let token = match self.fault {
            Fault::NobodyLeaves => return Ok(()),
            Fault::TokensFall => token.map(falling),
            _ => token,
        };
        let first = self.store.tokens().first().copied();
        if let Some(first) = first.filter(|_| self.is(Fault::TheFirstLeaves)) {
            self.store.expire(first);
        }
        self.wire.leave(id, token).await
    }

    async fn observe(&self, leader: &watch::Sender<Option<Leader>>) -> Result<(), Error> {
        let (shown, mut seen) = watch::channel(None);
        let ended = tokio::select! {
            biased;
            ended = self.wire.observe(&shown) => ended,
            () = self.forward(&mut seen, leader) => Ok(()),
        };
        if self.is(Fault::ObserversEndWithTheConnection) {
            pending::<()>().await;
        }
        ended
    }
}
