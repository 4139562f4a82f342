//! The answer to a round that has failed, released while everything goes back and after it.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use crate::support::stage::{Stage, carry_out, in_time, scripted};
use crate::support::{folder, make_tree};
use bidi_session::tonic::Session;
use examples::compute::Counter;
use examples::meta::Ended;
use examples::roster::Roster;
use examples::wire::{Command, Epoch, Reply, command};
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;

/// The round that is to fail: of the first leader, once both workers take part.
const FAILS: Epoch = Epoch::new(1, 5);

/// Leaves its session in the round that is to fail, once the other worker holds its answer.
async fn leaves(
    counter: Arc<Mutex<Counter>>,
    mut is_held: watch::Receiver<bool>,
    mut session: Session<Command, Reply>,
) {
    while let Some(command) = session.recv().await {
        if command.epoch == Some(FAILS) {
            is_held.wait_for(|is_held| *is_held).await.unwrap();
            return;
        }
        let replies = carry_out(&mut counter.lock().unwrap(), command);
        for reply in replies {
            session.send(reply).await.unwrap();
        }
    }
}

/// Holds the answer of that round, and sends it twice: before that to the reset which
/// follows, and before that to the next barrier.
async fn holds(
    counter: Arc<Mutex<Counter>>,
    is_held: watch::Sender<bool>,
    mut session: Session<Command, Reply>,
) {
    let mut held: Option<Reply> = None;
    let mut sent = 0;
    while let Some(command) = session.recv().await {
        let fails = command.epoch == Some(FAILS);
        let is_barrier = matches!(command.kind, Some(command::Kind::Barrier(_)));
        let [answer, report] = carry_out(&mut counter.lock().unwrap(), command);
        if fails {
            held = Some(answer);
            is_held.send_replace(true);
            continue;
        }
        if let Some(held) = held
            .clone()
            .filter(|_| is_barrier == (sent == 1) && sent < 2)
        {
            session.send(held).await.unwrap();
            sent += 1;
        }
        for reply in [answer, report] {
            session.send(reply).await.unwrap();
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_late_answer_is_counted_and_never_completes_the_round_that_follows() {
    let (_kept, folder) = folder();
    let (input, out) = (folder.join("input"), folder.join("out"));
    make_tree(&input, 200_000);
    let stage = Stage::new(&input, &out, "16k");
    let (held, is_held) = watch::channel(false);
    let counter = |worker| Arc::new(Mutex::new(stage.counter(worker)));
    let (one, two) = (counter("w1"), counter("w2"));
    let first = scripted(
        "w1",
        Arc::new(move |session| Box::pin(leaves(Arc::clone(&one), is_held.clone(), session))),
    );
    let second = scripted(
        "w2",
        Arc::new(move |session| Box::pin(holds(Arc::clone(&two), held.clone(), session))),
    );
    let ((w1, at_1, _serving_1), (w2, at_2, _serving_2)) = tokio::join!(first, second);
    let mut candidate = stage.candidate(Roster::from([(w1, at_1), (w2, at_2)]));
    // Both take part from the first round on, and nothing but the loss ends the round.
    candidate.settings.patience = Duration::from_secs(60);
    candidate.settings.round_deadline = Duration::from_secs(600);
    let stop = CancellationToken::new();
    let ended = in_time("the loop", candidate.run(&stop)).await;
    assert!(matches!(ended, Ended::Finished), "{ended:?}");
    let entries = stage.journal.entries();
    let lost = entries.recoveries.iter().filter(|r| r.contains("w1"));
    assert_eq!(lost.count(), 1, "{:?}", entries.recoveries);
    let dropped = entries.dropped;
    let late = dropped.late + dropped.duplicate + dropped.unknown;
    assert_eq!((late, entries.older_term), (2, 0), "{dropped:?}");
    // The round that failed is no part of the chain, which has no gap all the same.
    let epochs = stage.setup.store.snapshot().epochs;
    assert!(!epochs.contains(&FAILS), "{epochs:?}");
    assert!(epochs.iter().any(|epoch| epoch.n > FAILS.n), "{epochs:?}");
    stage.expect_equal();
    println!("CASE L03 fault={late}");
}
