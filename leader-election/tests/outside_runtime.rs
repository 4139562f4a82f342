//! Hunts panics and lies where there is no runtime, or none any more.

mod support;

use std::{
    pin::pin,
    task::{Context, Poll, Waker},
};

use leader_election::{Election, ErrorKind, Loss, MemoryElection, Resigned, boot_time};
use support::{config, secs, settle};
use tokio::runtime::{Builder, Runtime};

fn runtime() -> Runtime {
    let built = Builder::new_current_thread().enable_all().build();
    built.expect("a runtime")
}

#[test]
fn dropping_a_leadership_outside_a_runtime_resigns_all_the_same() {
    let election = MemoryElection::new(config(), 1);
    let runtime = runtime();
    let leader = runtime.block_on(election.campaign(b"a")).unwrap();
    assert!(leader.is_valid());
    drop(leader);
    runtime.block_on(settle());
    assert_eq!(election.places(), 0);
}

/// A process that ends: awaiting `resign` is the way to leave nothing behind.
#[test]
fn a_runtime_that_ends_after_a_drop_leaves_the_place_and_after_a_resign_it_does_not() {
    for resigns in [false, true] {
        let election = MemoryElection::new(config(), 1);
        let runtime = runtime();
        let leader = runtime.block_on(election.campaign(b"a")).unwrap();
        if resigns {
            let outcome = runtime.block_on(leader.resign());
            assert_eq!(outcome, Resigned::Released);
        }
        drop(leader);
        drop(runtime);
        assert_eq!(election.places(), usize::from(!resigns));
    }
}

#[test]
fn the_time_left_is_that_until_the_deadline_on_the_clock_since_boot() {
    let election = MemoryElection::new(config(), 1);
    let runtime = runtime();
    let leader = runtime.block_on(election.campaign(b"a")).unwrap();
    let (before, left, after) = (boot_time(), leader.time_left(), boot_time());
    assert!(before + left <= leader.deadline());
    assert!(leader.deadline() <= after + left);
    runtime.block_on(leader.resign());
    assert!(leader.time_left().is_zero());
}

#[test]
fn a_campaign_outside_a_runtime_is_an_error_and_no_panic() {
    let election = MemoryElection::new(config(), 1);
    let campaign = pin!(election.campaign(b"a"));
    let Poll::Ready(answer) = campaign.poll_once() else {
        panic!("it waits for nothing");
    };
    assert_eq!(answer, Some(ErrorKind::Invalid));
}

trait PollOnce {
    fn poll_once(self) -> Poll<Option<ErrorKind>>;
}

impl<T, F> PollOnce for std::pin::Pin<&mut F>
where
    F: Future<Output = Result<T, leader_election::Error>>,
{
    fn poll_once(self) -> Poll<Option<ErrorKind>> {
        self.poll(&mut Context::from_waker(Waker::noop()))
            .map(|answer| answer.err().map(|error| error.kind()))
    }
}

/// As tokio says it, to who has built the runtime: not in a task that nobody looks at.
#[test]
#[should_panic(expected = "timers are disabled")]
fn a_runtime_without_timers_is_told_to_the_caller() {
    let election = MemoryElection::new(config(), 1);
    let runtime = Builder::new_current_thread().build().unwrap();
    drop(runtime.block_on(election.campaign(b"a")));
}

#[test]
fn observers_end_with_the_runtime_of_the_first_and_others_begin_anew() {
    let election = MemoryElection::new(config(), 1);
    let (first, second) = (runtime(), runtime());
    let mut frozen = first.block_on(async { election.observe() });
    let leader = second.block_on(election.campaign(b"a")).unwrap();
    drop(first);
    assert!(second.block_on(frozen.changed()).is_err(), "it ends");

    let mut seen = second.block_on(async { election.observe() });
    assert!(!seen.has_changed().unwrap(), "as any new receiver");
    let shown = seen.borrow_and_update().as_ref().map(|leader| leader.token);
    assert_eq!(shown, Some(leader.token()));
    second.block_on(leader.resign());
    second.block_on(seen.wait_for(Option::is_none)).unwrap();
}

#[test]
fn a_runtime_that_is_shut_down_ends_its_leaderships() {
    let election = MemoryElection::new(config(), 1);
    let first = runtime();
    let leader = first.block_on(election.campaign(b"a")).unwrap();
    drop(first);
    assert!(!leader.is_valid());
    assert!(leader.deadline().is_zero());

    let second = runtime();
    assert_eq!(second.block_on(leader.lost()), Loss::Stopped);
    assert_eq!(second.block_on(leader.resign()), Resigned::Unconfirmed);
    assert_eq!(election.places(), 1, "nobody could leave it");
    drop(leader);
}

#[test]
fn a_campaign_whose_runtime_is_shut_down_ends() {
    let election = MemoryElection::new(config(), 1);
    let (first, second) = (runtime(), runtime());
    let leader = second.block_on(election.campaign(b"a")).unwrap();
    let other = election.clone();
    let mut campaign = Box::pin(async move { other.campaign(b"b").await });
    first.block_on(async {
        let waited = tokio::time::timeout(secs(0.05), &mut campaign).await;
        assert!(waited.is_err());
    });
    drop(first);
    let error = second.block_on(campaign).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Unavailable);
    assert!(leader.is_valid());
}

/// On the machine's own clock and a runtime with threads, as in production.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn real_time_hands_over_as_well() {
    let election = MemoryElection::new(config().with_ttl(secs(20.0)), 1);
    let mut tasks = tokio::task::JoinSet::new();
    for _ in 0..50 {
        let election = election.clone();
        tasks.spawn(async move {
            let leadership = election.campaign(b"n").await.unwrap();
            assert!(leadership.is_valid());
            let token = leadership.token();
            assert_eq!(leadership.resign().await, Resigned::Released);
            assert!(!leadership.is_valid());
            token
        });
    }
    let mut tokens = tasks.join_all().await;
    tokens.sort_unstable();
    assert!(
        tokens.is_sorted_by(|a, b| a < b),
        "no token was given twice"
    );
    assert_eq!(election.places(), 0);
}
