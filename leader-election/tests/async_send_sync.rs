//! Fixes which types and futures may cross threads, and what is object safe.

use leader_election::{
    CandidateId, Election, ElectionConfig, Error, ErrorKind, Grant, Leader, Leadership, Loss,
    MemoryElection, MemoryStore, Place, Renewal, Resigned, Standing, Store, StoreElection,
    conformance::{Claim, Cut, Harness, Violation, Wire},
};

const fn thread_safe<T: Send + Sync + 'static>() {}

const _: () = {
    thread_safe::<CandidateId>();
    thread_safe::<Claim>();
    thread_safe::<Cut>();
    thread_safe::<ElectionConfig>();
    thread_safe::<Error>();
    thread_safe::<ErrorKind>();
    thread_safe::<Grant>();
    thread_safe::<Leader>();
    thread_safe::<Leadership>();
    thread_safe::<Loss>();
    thread_safe::<MemoryElection>();
    thread_safe::<MemoryStore>();
    thread_safe::<Place>();
    thread_safe::<Renewal>();
    thread_safe::<Resigned>();
    thread_safe::<Standing>();
    thread_safe::<StoreElection<MemoryStore>>();
    thread_safe::<Violation>();
    thread_safe::<Wire<MemoryStore>>();
    thread_safe::<Box<dyn Election>>();
    thread_safe::<Box<dyn Harness>>();
    thread_safe::<Box<dyn Store>>();
};

#[cfg(feature = "etcd")]
const _: () = {
    thread_safe::<leader_election::etcd::EtcdElection>();
    thread_safe::<leader_election::etcd::EtcdOptions>();
};

const _: fn(&dyn Election) = |_| {};
const _: fn(&dyn Harness) = |_| {};
const _: fn(&dyn Store) = |_| {};

fn send<F: Future + Send>(future: F) -> F {
    future
}

#[tokio::test(start_paused = true)]
async fn every_future_is_send_and_lost_borrows_nothing() {
    let election: Box<dyn Election> =
        Box::new(MemoryElection::simulated(ElectionConfig::default(), 1));
    let leadership = send(election.campaign(b"n1")).await.unwrap();
    let lost = tokio::spawn(leadership.lost());
    send(leadership.proclaim(b"n2")).await.unwrap();
    assert_eq!(send(leadership.resign()).await, Resigned::Released);
    drop(leadership);
    assert_eq!(lost.await.unwrap(), Loss::Resigned);
}
