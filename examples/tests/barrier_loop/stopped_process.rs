//! The end of the mode in one process: by a signal, and by the loss of its leadership.

use std::process::Stdio;
use std::sync::Arc;
use std::time::Duration;

use crate::support::stage::{Stage, in_time};
use crate::support::{barrier_loop, folder, make_tree, poll, send, text, wait};
use examples::embedded::Workers;
use examples::meta::Ended;
use examples::status::Status;
use examples::store::Store;
use fencing::{Policy, Watchdog, WatchdogConfig};
use leader_election::{ElectionConfig, MemoryElection};
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;

#[test]
fn an_interrupt_ends_all_parts_and_leaves_a_chain_that_goes_on() {
    let (_kept, folder) = folder();
    let (input, out) = (folder.join("input"), folder.join("out"));
    std::fs::write(&input, "a few words, again and again\n".repeat(1_000_000)).unwrap();
    let child = barrier_loop()
        .args(["--epoch-bytes", "16k", "--out", text(&out)])
        .arg(&input)
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    let grown = || std::fs::metadata(out.join("chain")).is_ok_and(|meta| meta.len() > 100_000);
    poll(Duration::from_secs(60), || grown().then_some(())).expect("the chain does not grow");
    send("INT", &child);
    let ended = wait(child, Duration::from_secs(5));
    assert_eq!(ended.code(), Some(130));
    // Its lock is free, and what it holds is whole.
    let chain = Store::open(&out).unwrap().snapshot();
    assert!(!chain.head.last && !chain.epochs.is_empty());
    println!("CASE L13 fault={}", u8::from(ended.code() == Some(130)));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_leader_whose_guard_trips_makes_room_for_another_in_the_same_process() {
    let (_kept, folder) = folder();
    let (input, out) = (folder.join("input"), folder.join("out"));
    make_tree(&input, 400_000);
    let stage = Stage::new(&input, &out, "4k");
    let workers = Workers::start(2, &stage.setup.store, &stage.setup.plan).unwrap();
    let ttl = Duration::from_secs(3);
    let config = || WatchdogConfig::for_ttl(ttl).with_policy(Policy::CancelOnly);
    let reserve = Watchdog::start(config()).unwrap().reserve();
    let election = MemoryElection::new(ElectionConfig::for_ttl(ttl).with_reserve(reserve), 1);
    let (status, mut seen) = watch::channel(Status::default());
    let candidate = || {
        let mut candidate = stage.candidate(workers.roster());
        candidate.watchdog = Watchdog::start(config()).unwrap();
        candidate.election = Arc::new(election.clone());
        candidate.status = status.clone();
        candidate
    };
    let (one, other) = (candidate(), candidate());
    let stop = CancellationToken::new();
    let trips = async {
        seen.wait_for(|status| status.epochs >= 2).await.unwrap();
        election.expire(1);
    };
    let both = async { tokio::join!(one.run(&stop), other.run(&stop), trips) };
    let (first, second, ()) = in_time("both", Box::pin(both)).await;
    assert!(matches!(first, Ended::Finished), "{first:?}");
    assert!(matches!(second, Ended::Finished), "{second:?}");
    let recoveries = stage.journal.entries().recoveries;
    let gone = "the leader with token 1 is gone";
    let lost = recoveries.iter().filter(|why| why.contains(gone)).count();
    assert_eq!(lost, 1, "{recoveries:?}");
    workers.stop();
    let epochs = stage.setup.store.snapshot().epochs;
    let terms: Vec<u64> = epochs.iter().map(|epoch| epoch.term).collect();
    assert!(
        terms.first() == Some(&1) && terms.last() >= Some(&2),
        "{terms:?}"
    );
    stage.expect_equal();
    println!("CASE L13 fault={lost}");
}
