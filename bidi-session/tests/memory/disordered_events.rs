//! Random runs with every fault there is: events keep their grammar, no message crosses
//! sessions, sessions of a worker do not overlap, and a seed repeats its run.
//!
//! `SEED=n` runs that seed alone and prints what happened.

use std::collections::BTreeMap;

use bidi_session::memory::FaultCounts;

use crate::random_run::{Run, WORKERS};
use crate::rig::{LONG, is_soak, millis, tasks};

/// Names the seed when the test fails.
struct Seed(u64);

impl Drop for Seed {
    fn drop(&mut self) {
        if std::thread::panicking() {
            eprintln!("failed with SEED={}", self.0);
        }
    }
}

/// Runs a seed; returns what happened and which faults struck.
fn run(seed: u64) -> (Vec<String>, FaultCounts) {
    let _seed = Seed(seed);
    let mut builder = tokio::runtime::Builder::new_current_thread();
    let runtime = builder.enable_all().start_paused(true).build().unwrap();
    runtime.block_on(async {
        let before = tasks();
        let mut run = Run::new(seed);
        for worker in 0..WORKERS {
            run.serve(&format!("w{worker}"));
        }
        run.lead();
        for _ in 0..80 {
            run.step();
            let most = [1, 20, 500, 5_000][run.random.usize(..4)];
            tokio::time::sleep(millis(run.random.u64(..most))).await;
            // An owner that is away at times fills its mailboxes.
            if run.random.u32(..4) > 0 {
                run.drain();
            }
        }
        run.recover().await;
        let total = run.network.total();
        run.note(&format!("{total:?}"));
        let log = run.log.clone();
        drop(run);
        tokio::time::sleep(LONG).await;
        assert_eq!(tasks(), before, "a task is left");
        let log = log.0.lock().unwrap().clone();
        let violation = log.iter().find(|line| line.contains("VIOLATION"));
        assert_eq!(violation, None);
        (log, total)
    })
}

#[test]
fn random_runs_keep_the_grammar_and_repeat_themselves() {
    if let Ok(seed) = std::env::var("SEED") {
        let (log, _) = run(seed.parse().unwrap());
        log.iter().for_each(|line| println!("{line}"));
        return;
    }
    let seeds = if is_soak() { 10_000 } else { 200 };
    let mut total = FaultCounts::default();
    let mut seen = BTreeMap::<&str, u64>::new();
    for seed in 0..seeds {
        let (log, struck) = run(seed);
        total += struck;
        let (again, _) = run(seed);
        let differs = log.iter().zip(&again).find(|(one, other)| one != other);
        assert_eq!(differs, None, "SEED={seed} does not repeat itself");
        assert_eq!(log.len(), again.len(), "SEED={seed}");
        for kind in [
            "connected",
            "said",
            "lost: keepalive",
            "reset",
            "newer session",
            "saw term",
            "refused",
            "another worker",
            "complete",
            "no answer in time",
            "removed",
        ] {
            let count = log.iter().filter(|line| line.contains(kind)).count();
            *seen.entry(kind).or_default() += count as u64;
        }
    }
    println!("{seeds} seeds: {seen:?}, {total:?}");
    // Runs in which a fault never strikes would prove nothing of it.
    assert!(seen.values().all(|count| *count > 0), "{seen:?}");
    let FaultCounts {
        dials_refused,
        dials_held,
        reads_held,
        messages_delayed,
        silent_ends,
        resets,
        kills,
        messages_lost,
        ..
    } = total;
    let struck = [
        dials_refused,
        dials_held,
        reads_held,
        messages_delayed,
        silent_ends,
        resets,
        kills,
        messages_lost,
    ];
    assert!(struck.iter().all(|count| *count > 0), "{total:?}");
}
