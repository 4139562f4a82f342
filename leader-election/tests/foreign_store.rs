//! Hunts what a store of someone else could break: it is written with the
//! public API only.

mod support;

use std::{
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    time::Duration,
};

use async_trait::async_trait;
use leader_election::{
    CandidateId, Election, ElectionConfig, Error, ErrorKind, Grant, Leader, Loss, MemoryStore,
    Place, Renewal, Resigned, Standing, Store, StoreElection, simulated_time,
};
use support::{Call, Trouble, Wire, config, secs};
use tokio::sync::watch;

/// A queue of one: the simplest store there can be.
#[derive(Default)]
struct Alone {
    /// What it grants, if not what was asked for.
    ttl: Option<Duration>,
    reset: bool,
    left: AtomicUsize,
}

#[async_trait]
impl Store for Alone {
    async fn join(&self, id: CandidateId, _: &[u8], ttl: Duration) -> Result<Grant, Error> {
        Ok(Grant::new(
            Place::new(id, 4711, "life/n"),
            self.ttl.unwrap_or(ttl),
        ))
    }

    async fn wait(&self, _: &Place, _: Standing) -> Result<Standing, Error> {
        if self.reset {
            return Ok(Standing::Gone(Loss::Reset));
        }
        std::future::pending().await
    }

    async fn verify(&self, _: &Place) -> Result<Standing, Error> {
        Ok(Standing::First)
    }

    async fn renew(&self, _: &Place) -> Result<Renewal, Error> {
        Ok(Renewal::Confirmed(self.ttl.unwrap_or(support::TTL)))
    }

    async fn proclaim(&self, _: &Place, _: &[u8]) -> Result<Standing, Error> {
        Ok(Standing::First)
    }

    async fn leave(&self, _: CandidateId, token: Option<u64>) -> Result<(), Error> {
        assert_eq!(token, Some(4711));
        self.left.fetch_add(1, Ordering::Relaxed);
        Ok(())
    }

    async fn observe(&self, leader: &watch::Sender<Option<Leader>>) -> Result<(), Error> {
        leader.send_replace(Some(Leader::new("n", 4711, "life/n")));
        std::future::pending().await
    }
}

fn election(store: Alone, config: ElectionConfig) -> StoreElection<Alone> {
    StoreElection::new(store, config).with_clock(simulated_time)
}

#[tokio::test(start_paused = true)]
async fn a_store_of_ones_own_makes_an_election() {
    let election = election(Alone::default(), config());
    let leadership = election.campaign(b"n").await.unwrap();
    assert_eq!((leadership.token(), leadership.scope()), (4711, "life/n"));
    assert!(election.observe().borrow().is_some());
    tokio::time::sleep(secs(60.0)).await;
    assert!(leadership.is_valid());
    assert_eq!(leadership.resign().await, Resigned::Released);
    assert_eq!(election.store().left.load(Ordering::Relaxed), 1);
}

#[tokio::test(start_paused = true)]
async fn the_deadline_counts_with_the_lease_that_was_granted() {
    let ttl = Some(secs(60.0));
    let election = election(
        Alone {
            ttl,
            ..Alone::default()
        },
        config(),
    );
    let sent = simulated_time();
    let leadership = election.campaign(b"n").await.unwrap();
    assert_eq!(leadership.deadline(), sent + secs(59.94));
}

#[tokio::test(start_paused = true)]
async fn a_grant_too_short_for_the_settings_is_refused_and_given_back() {
    let ttl = Some(secs(5.0));
    let election = election(
        Alone {
            ttl,
            ..Alone::default()
        },
        config(),
    );
    let error = election.campaign(b"n").await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Invalid);
    assert!(error.to_string().contains("ttl 5s"), "{error}");
    support::settle().await;
    assert_eq!(election.store().left.load(Ordering::Relaxed), 1);
}

#[tokio::test(start_paused = true)]
async fn absurd_grants_overflow_nothing() {
    let ttl = Some(Duration::MAX);
    let election = election(
        Alone {
            ttl,
            ..Alone::default()
        },
        config(),
    );
    let leadership = election.campaign(b"n").await.unwrap();
    tokio::time::sleep(secs(60.0)).await;
    assert!(leadership.is_valid());
    assert_eq!(leadership.resign().await, Resigned::Released);
}

#[tokio::test(start_paused = true)]
async fn a_store_that_went_backwards_is_a_reason_of_its_own() {
    let store = Alone {
        reset: true,
        ..Alone::default()
    };
    let leadership = election(store, config()).campaign(b"n").await.unwrap();
    assert_eq!(leadership.lost().await, Loss::Reset);
    assert_eq!(leadership.resign().await, Resigned::AlreadyOver);
}

/// A panic of the store is a failed call, no more.
#[tokio::test(start_paused = true)]
async fn a_store_that_panics_is_retried() {
    let panics = Arc::new(AtomicUsize::new(0));
    let count = Arc::clone(&panics);
    let wire = Wire::new(MemoryStore::new(1));
    wire.rule(move |call, _| {
        // Each kind of call panics once, renewals in their turn.
        let turn = count.load(Ordering::Relaxed);
        let order = [
            Call::Join,
            Call::Verify,
            Call::Renew,
            Call::Wait,
            Call::Leave,
        ];
        if order.get(turn) == Some(&call) {
            count.fetch_add(1, Ordering::Relaxed);
            std::panic::resume_unwind(Box::new("a fault of the test"));
        }
        Trouble::default()
    });
    let leadership = wire.election(config()).campaign(b"n").await.unwrap();
    tokio::time::sleep(secs(20.0)).await;
    assert!(leadership.is_valid());
    assert_eq!(leadership.resign().await, Resigned::Released);
    assert_eq!(panics.load(Ordering::Relaxed), 5);
}
