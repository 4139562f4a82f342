//! A worker that answers slowly, or never: one round is under way, never more.

use std::collections::VecDeque;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use crate::support::stage::{Stage, carry_out, in_time, scripted};
use crate::support::{folder, make_tree};
use bidi_session::tonic::Session;
use examples::compute::Counter;
use examples::meta::Ended;
use examples::roster::Roster;
use examples::status::Status;
use examples::wire::{Command, Reply, command};
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;

/// Barriers that are answered slowly.
const SLOW: usize = 5;

/// How long each of them takes.
const TAKES: Duration = Duration::from_millis(700);

/// What a worker has seen.
#[derive(Default)]
struct Seen {
    /// Commands that waited for their answer at once, at the most.
    most: AtomicUsize,
    /// Barriers that were answered slowly, or never.
    slow: AtomicUsize,
}

fn is_barrier(command: &Command) -> bool {
    matches!(command.kind, Some(command::Kind::Barrier(_)))
}

/// Takes every command at once, and answers the first barriers slowly.
async fn slow(counter: Arc<Mutex<Counter>>, seen: Arc<Seen>, mut session: Session<Command, Reply>) {
    let mut open: VecDeque<Command> = VecDeque::new();
    loop {
        let is_slow = open.front().is_some_and(is_barrier) && seen.slow.load(Relaxed) < SLOW;
        let takes = if is_slow { TAKES } else { Duration::ZERO };
        tokio::select! {
            biased;
            command = session.recv() => {
                let Some(command) = command else { return };
                open.push_back(command);
                seen.most.fetch_max(open.len(), Relaxed);
                continue;
            }
            () = tokio::time::sleep(takes), if !open.is_empty() => {}
        }
        seen.slow.fetch_add(usize::from(is_slow), Relaxed);
        let Some(command) = open.pop_front() else {
            continue;
        };
        let replies = carry_out(&mut counter.lock().unwrap(), command);
        for reply in replies {
            session.send(reply).await.unwrap();
        }
    }
}

/// Collects every text about a round that takes long.
async fn note_late_rounds(mut status: watch::Receiver<Status>, notes: &Mutex<Vec<String>>) {
    while status.changed().await.is_ok() {
        let round = status.borrow_and_update().round.clone();
        if !round.is_empty() {
            notes.lock().unwrap().push(round);
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn while_one_worker_is_slow_no_second_barrier_is_under_way_and_it_is_named() {
    let (_kept, folder) = folder();
    let (input, out) = (folder.join("input"), folder.join("out"));
    make_tree(&input, 200_000);
    let mut stage = Stage::new(&input, &out, "16k");
    stage.setup.settings.interval = Duration::from_millis(50);
    let seen: [Arc<Seen>; 2] = Default::default();
    let quick = Arc::new(Mutex::new(stage.counter("w1")));
    let idle = Arc::clone(&seen[0]);
    idle.slow.store(SLOW, Relaxed);
    let first = scripted(
        "w1",
        Arc::new(move |session| Box::pin(slow(Arc::clone(&quick), Arc::clone(&idle), session))),
    );
    let counter = Arc::new(Mutex::new(stage.counter("w2")));
    let counts = Arc::clone(&seen[1]);
    let second = scripted(
        "w2",
        Arc::new(move |session| Box::pin(slow(Arc::clone(&counter), Arc::clone(&counts), session))),
    );
    let ((w1, at_1, _serving_1), (w2, at_2, _serving_2)) = tokio::join!(first, second);
    let mut candidate = stage.candidate(Roster::from([(w1, at_1), (w2, at_2)]));
    candidate.settings.patience = Duration::from_secs(60);
    candidate.settings.round_deadline = Duration::from_secs(600);
    let notes = Mutex::new(Vec::new());
    let stop = CancellationToken::new();
    let ended = tokio::select! {
        ended = in_time("the loop", candidate.run(&stop)) => ended,
        () = note_late_rounds(stage.status.subscribe(), &notes) => unreachable!("it is kept"),
    };
    assert!(matches!(ended, Ended::Finished), "{ended:?}");
    let most = seen.iter().map(|seen| seen.most.load(Relaxed)).max();
    assert_eq!(most, Some(1), "commands under way to one worker");
    let notes = notes.into_inner().unwrap();
    let named = notes.iter().filter(|note| note.ends_with(" s for w2"));
    assert!(named.count() >= 3, "{notes:?}");
    // Resumed: it ends without a recovery, and right.
    let recoveries = stage.journal.entries().recoveries;
    assert!(recoveries.is_empty(), "{recoveries:?}");
    stage.expect_equal();
    println!("{}", notes[0]);
    println!("CASE L06 fault={}", seen[1].slow.load(Relaxed));
}

/// Answers resets only.
async fn mute(seen: Arc<Seen>, told: watch::Sender<bool>, mut session: Session<Command, Reply>) {
    while let Some(command) = session.recv().await {
        if is_barrier(&command) {
            seen.slow.fetch_add(1, Relaxed);
            told.send_replace(true);
            continue;
        }
        let kind = Some(examples::wire::reply::Kind::ResetDone(Default::default()));
        let epoch = command.epoch;
        session.send(Reply { epoch, kind }).await.unwrap();
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_round_that_nobody_answers_ends_at_once_when_its_worker_is_replaced() {
    let (_kept, folder) = folder();
    let (input, out) = (folder.join("input"), folder.join("out"));
    make_tree(&input, 100_000);
    let stage = Stage::new(&input, &out, "16k");
    let seen: Arc<Seen> = Arc::default();
    let (told, mut is_stuck) = watch::channel(false);
    let counts = Arc::clone(&seen);
    let stuck = scripted(
        "w1",
        Arc::new(move |session| Box::pin(mute(Arc::clone(&counts), told.clone(), session))),
    );
    let counter = Arc::new(Mutex::new(stage.counter("w1")));
    let quick = Arc::new(Seen::default());
    quick.slow.store(SLOW, Relaxed);
    let other = scripted(
        "w1",
        Arc::new(move |session| Box::pin(slow(Arc::clone(&counter), Arc::clone(&quick), session))),
    );
    let ((w1, at, _serving), (_, elsewhere, _other)) = tokio::join!(stuck, other);
    let (roster, watched) = watch::channel(Roster::from([(w1.clone(), at)]));
    let mut candidate = stage.candidate(Roster::new());
    candidate.roster = watched;
    // The round itself would wait for longer than the test.
    candidate.settings.round_deadline = Duration::from_secs(600);
    let stop = CancellationToken::new();
    let replaces = async {
        is_stuck.wait_for(|is_stuck| *is_stuck).await.unwrap();
        roster.send_replace(Roster::from([(w1.clone(), elsewhere)]));
        std::future::pending().await
    };
    let ended = tokio::select! {
        ended = in_time("the loop", candidate.run(&stop)) => ended,
        () = replaces => unreachable!("it is pending at its end"),
    };
    assert!(matches!(ended, Ended::Finished), "{ended:?}");
    let recoveries = stage.journal.entries().recoveries;
    let by_name = recoveries.iter().filter(|why| why.contains("w1 ("));
    assert_eq!(by_name.count(), 1, "{recoveries:?}");
    let unanswered = seen.slow.load(Relaxed);
    assert_eq!(unanswered, 1, "the limit is one round");
    // The chain begins with what came after it: the barrier is dropped.
    let first = stage.setup.store.snapshot().epochs[0];
    assert!(first.n > 2, "{first}");
    stage.expect_equal();
    println!("CASE L02 fault={unanswered}");
}
