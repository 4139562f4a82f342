//! E13: giving up a lease that is gone already.

use std::sync::{
    Arc,
    atomic::{AtomicU64, Ordering::Relaxed},
};

use leader_election::{Loss, Resigned};
use tracing::{Event, Level, Metadata, Subscriber, span};

use super::passed;
use crate::{join, lead, server::Etcd, soon};

/// Counts what this thread logs: all of it, and what is above debug and no mere
/// change of the leadership.
#[derive(Clone, Default)]
struct Counter(Arc<Counts>);

#[derive(Default)]
struct Counts {
    all: AtomicU64,
    complaints: AtomicU64,
}

impl Subscriber for Counter {
    fn enabled(&self, metadata: &Metadata<'_>) -> bool {
        metadata.target().starts_with("leader_election")
    }

    fn new_span(&self, _: &span::Attributes<'_>) -> span::Id {
        span::Id::from_u64(1)
    }

    fn record(&self, _: &span::Id, _: &span::Record<'_>) {}

    fn record_follows_from(&self, _: &span::Id, _: &span::Id) {}

    fn event(&self, event: &Event<'_>) {
        self.0.all.fetch_add(1, Relaxed);
        if *event.metadata().level() <= Level::WARN {
            self.0.complaints.fetch_add(1, Relaxed);
        }
    }

    fn enter(&self, _: &span::Id) {}

    fn exit(&self, _: &span::Id) {}
}

// One thread, whose log is counted.
#[tokio::test]
async fn giving_up_a_lease_that_is_gone_is_no_error() {
    let etcd = Etcd::start().await;
    let election = join(&etcd, 3).await;
    let leadership = lead(&election, b"a").await;
    let counter = Counter::default();
    let _logs = tracing::subscriber::set_default(counter.clone());

    let mut client = etcd.client().await;
    let before = client.leases().await.unwrap().leases().len();
    let lease = client.leases().await.unwrap().leases()[0].id();
    client.lease_revoke(lease).await.unwrap();
    let after = client.leases().await.unwrap().leases().len();
    assert_eq!(soon(leadership.lost()).await, Loss::Removed);
    assert_eq!(soon(leadership.resign()).await, Resigned::AlreadyOver);
    assert_eq!(soon(leadership.resign()).await, Resigned::AlreadyOver);
    drop(leadership);
    // The next one leads at once, so nothing of the old one is left.
    let next = lead(&election, b"b").await;
    drop((next, election));
    assert!(counter.0.all.load(Relaxed) > 0, "the log is counted");
    assert_eq!(counter.0.complaints.load(Relaxed), 0);
    passed("E13", (before - after) as u64);
}
