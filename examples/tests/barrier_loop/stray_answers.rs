//! An answer that belongs to no round under way is counted and dropped, never counted in.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use crate::support::stage::{Scripted, Stage, endpoint, in_time, serve};
use crate::support::{folder, make_tree};
use bidi_session::WorkerId;
use bidi_session::tonic::{Acceptor, Session};
use examples::compute::Counter;
use examples::meta::Ended;
use examples::roster::{Place, Roster};
use examples::wire::{Command, Epoch, Reply, command, reply};
use tokio::net::TcpListener;
use tokio_util::sync::CancellationToken;

/// A worker that counts right, and adds a stray answer of each kind on the way.
struct Stray {
    counter: Counter,
    barriers: u32,
    /// An answer that was held back until its round had failed.
    held: Option<Reply>,
}

impl Stray {
    /// Returns what is sent for one command; the flag says to leave the session instead.
    fn answer(&mut self, command: Command) -> (Vec<Reply>, bool) {
        let is_barrier = matches!(command.kind, Some(command::Kind::Barrier(_)));
        let right = self.counter.command(command);
        while self.counter.has_work() {
            self.counter.step();
        }
        let mut all: Vec<Reply> = self.held.take().into_iter().collect();
        if is_barrier {
            self.barriers += 1;
            match self.barriers {
                2 => all.push(with_epoch(&right, |e| Epoch::new(e.term - 1, e.n))),
                3 => all.push(with_epoch(&right, |e| Epoch::new(e.term, e.n + 1000))),
                4 => all.push(right.clone()),
                // Held until the round has timed out: sent before the next answer.
                5 => {
                    self.held = Some(right);
                    return (all, false);
                }
                // Held while the session is left: sent on the next one.
                7 => {
                    self.held = Some(right);
                    return (all, true);
                }
                _ => {}
            }
        }
        all.push(right);
        all.push(Reply {
            epoch: None,
            kind: Some(reply::Kind::Progress(self.counter.progress())),
        });
        (all, false)
    }
}

fn with_epoch(reply: &Reply, change: impl Fn(Epoch) -> Epoch) -> Reply {
    let mut reply = reply.clone();
    reply.epoch = reply.epoch.map(change);
    reply
}

async fn drive(stray: Arc<Mutex<Stray>>, mut session: Session<Command, Reply>) {
    let held = stray.lock().unwrap().held.take();
    if let Some(held) = held {
        session.send(held).await.unwrap();
    }
    while let Some(command) = session.recv().await {
        let (replies, leave) = stray.lock().unwrap().answer(command);
        for reply in replies {
            session.send(reply).await.unwrap();
        }
        if leave {
            return;
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn each_kind_is_counted_once_and_the_result_is_equal() {
    let (_kept, folder) = folder();
    let (input, out) = (folder.join("input"), folder.join("out"));
    make_tree(&input, 400_000);
    let stage = Stage::new(&input, &out, "16k");
    // The store has seen token 1: this reign is term 2, so that there is an older one.
    stage.setup.store.admit_leader(1).await.unwrap();
    let stray = Arc::new(Mutex::new(Stray {
        counter: stage.counter("w1"),
        barriers: 0,
        held: None,
    }));
    let worker = Scripted {
        acceptor: Acceptor::new("w1", 1, 0),
        script: Arc::new(move |session| Box::pin(drive(Arc::clone(&stray), session))),
    };
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let _serving = serve(worker, listener);
    let place = Place::new(endpoint(address));
    let mut candidate = stage.candidate(Roster::from([(WorkerId::from("w1"), place)]));
    candidate.settings.round_deadline = Duration::from_millis(500);
    let stop = CancellationToken::new();
    let ended = in_time("the loop", candidate.run(&stop)).await;
    assert!(matches!(ended, Ended::Finished), "{ended:?}");
    let entries = stage.journal.entries();
    let dropped = entries.dropped;
    let found = [
        ("older term", entries.older_term),
        ("older generation", dropped.older_generation),
        ("late", dropped.late),
        ("duplicate", dropped.duplicate),
        ("unknown", dropped.unknown),
    ];
    assert_eq!(found.map(|(_, count)| count), [1; 5], "{found:?}");
    let totals = stage.expect_equal();
    assert!(totals.words > 0);
    let terms = stage.setup.store.snapshot().epochs;
    assert!(terms.iter().all(|epoch| epoch.term == 2));
}
