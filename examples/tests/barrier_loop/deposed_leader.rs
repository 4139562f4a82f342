//! A leader that was killed, but runs on, cannot commit after its successor.

use std::time::Duration;

use crate::support::stage::{Stage, in_time};
use crate::support::{folder, make_tree};
use examples::embedded::Workers;
use examples::meta::{Ended, Holder, Refused, commit};
use examples::store::CommitError;
use examples::wire::{Epoch, Manifest};
use fencing::{Guard, Policy, Watchdog, WatchdogConfig, boot_time};
use tokio_util::sync::CancellationToken;

/// Opens a reign with token 1 that commits one epoch and is then cut off.
async fn old_leader(stage: &Stage, watchdog: &Watchdog) -> (Guard, Manifest) {
    let guard = watchdog
        .guard(1, boot_time() + Duration::from_secs(60))
        .unwrap();
    let store = &stage.setup.store;
    store.admit_leader(1).await.unwrap();
    let manifest = |n, prev| Manifest {
        epoch: Some(Epoch::new(1, n)),
        prev,
        positions: stage.setup.plan.start(),
        ..Manifest::default()
    };
    let first = manifest(1, None);
    commit(Holder::Guarded(&guard), store, 1, &first)
        .await
        .unwrap();
    let prev = first.epoch;
    (guard, manifest(2, prev))
}

/// Runs a successor to the end of the chain.
async fn successor(stage: &Stage) {
    let workers = Workers::start(2, &stage.setup.store, &stage.setup.plan).unwrap();
    let candidate = stage.candidate(workers.roster());
    let stop = CancellationToken::new();
    let ended = in_time("the loop", candidate.run(&stop)).await;
    assert!(matches!(ended, Ended::Finished), "{ended:?}");
    workers.stop();
}

#[tokio::test(flavor = "multi_thread")]
async fn with_its_guard_it_refuses_itself_and_without_it_the_store_refuses() {
    let (_kept, folder) = folder();
    let (input, out) = (folder.join("input"), folder.join("out"));
    make_tree(&input, 200_000);
    let stage = Stage::new(&input, &out, "16k");
    let config = WatchdogConfig::default().with_policy(Policy::CancelOnly);
    let watchdog = Watchdog::start(config).unwrap();
    let (guard, late) = old_leader(&stage, &watchdog).await;
    // Its lease runs out: the guard hears of no renewal.
    guard.trip();
    successor(&stage).await;
    let store = &stage.setup.store;
    let refused = commit(Holder::Guarded(&guard), store, 1, &late).await;
    assert!(matches!(refused, Err(Refused::Guard(_))), "{refused:?}");
    let refused = commit(Holder::Unguarded, store, 1, &late).await;
    let stale =
        matches!(&refused, Err(Refused::Store(CommitError::Stale { highest })) if *highest > 1);
    assert!(stale, "{refused:?}");
    stage.expect_equal();
}

/// The control of the test above: before there is a successor the same commit lands.
#[tokio::test(flavor = "multi_thread")]
async fn before_a_successor_the_same_commit_lands() {
    let (_kept, folder) = folder();
    let (input, out) = (folder.join("input"), folder.join("out"));
    make_tree(&input, 200_000);
    let stage = Stage::new(&input, &out, "16k");
    // Its guard is never finished: another policy would end all tests a minute later.
    let config = WatchdogConfig::default().with_policy(Policy::CancelOnly);
    let watchdog = Watchdog::start(config).unwrap();
    let (guard, late) = old_leader(&stage, &watchdog).await;
    commit(Holder::Guarded(&guard), &stage.setup.store, 1, &late)
        .await
        .unwrap();
    successor(&stage).await;
    stage.expect_equal();
}

#[tokio::test(flavor = "multi_thread")]
async fn a_commit_whose_reply_is_lost_is_settled_by_repeating_it() {
    let (_kept, folder) = folder();
    let (input, out) = (folder.join("input"), folder.join("out"));
    make_tree(&input, 200_000);
    let stage = Stage::new(&input, &out, "16k");
    stage.setup.store.lose_replies(3);
    successor(&stage).await;
    let hindered = stage.journal.entries().hindrances;
    let unknown = hindered
        .iter()
        .filter(|why| why.contains("unknown"))
        .count();
    assert_eq!(unknown, 3, "{hindered:?}");
    stage.expect_equal();
}
