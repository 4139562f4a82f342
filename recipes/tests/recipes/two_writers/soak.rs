//! Lets two writers lead in turn, stops and continues them, and reads what is there.

use std::collections::BTreeSet;
use std::io::Write;
use std::process::ChildStdin;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use fastrand::Rng;
use fencing::Token;
use recipes::Entry;
use tokio::time::{Instant, sleep, timeout};

use super::writer::{Target, lead, start};
use crate::child::{Process, hear};
use crate::resources::Keyed;

const NAME: &str = "soak";
/// A resource of its own, whose leader is never followed by another.
const OFF: &str = "soak-off";
/// Longer with `SOAK=1`.
const SHORT: Duration = Duration::from_millis(1_500);
const LONG: Duration = Duration::from_secs(60);
/// What a run has to show, however slow the machine is.
const ENOUGH: u64 = 3;
const HANG: Duration = Duration::from_secs(90);

/// What the writers have said.
#[derive(Debug, Default)]
struct Counts {
    wrote: Mutex<BTreeSet<String>>,
    stale: Mutex<u64>,
}

struct Writer {
    process: Process,
    input: ChildStdin,
    is_stopped: bool,
}

struct Soak<'a> {
    harness: &'a dyn Keyed,
    writers: [Writer; 2],
    listeners: Vec<std::thread::JoinHandle<()>>,
    counts: Arc<Counts>,
    /// Threads that the kernel has shown as stopped, by writer.
    stopped: [u64; 2],
    takeovers: u64,
    rng: Rng,
    /// What every writer shows while the fence is off.
    off: Option<Token>,
}

/// With the fence on nothing is wrong, for as long as the soak lasts.
pub(super) async fn holds(what: &str, harness: &dyn Keyed, target: Target) {
    let long = if std::env::var_os("SOAK").is_some() {
        LONG
    } else {
        SHORT
    };
    let mut soak = Soak::start(what, harness, &target, None);
    let end = Instant::now() + long;
    let run = timeout(HANG + long, async {
        while Instant::now() < end || !soak.has_shown_enough() {
            soak.step().await;
        }
        soak.end().await
    });
    let Ok(entries) = run.await else {
        panic!("{what}: not enough has happened: {:?}", soak.counts);
    };
    let wrong = violations(&entries, &soak.counts.wrote.lock().unwrap());
    assert!(wrong.is_empty(), "{what}: {wrong:?}");
    let fenced = |entry: &Entry| entry.token.number() == number(entry);
    assert!(
        entries.iter().all(fenced),
        "{what}: another token than the writer's"
    );
    println!(
        "CASE soak-{what} fault={} takeovers={} stale={} entries={}",
        soak.stopped.iter().sum::<u64>(),
        soak.takeovers,
        soak.counts.stale.lock().unwrap(),
        entries.len(),
    );
}

/// With the fence off something is: this is what the soak looks for.
pub(super) async fn finds_a_violation(what: &str, harness: &dyn Keyed, target: Target) {
    let off = harness.next_token(OFF).await;
    let mut soak = Soak::start(what, harness, &target, Some(off));
    let found = timeout(HANG, async {
        loop {
            soak.step().await;
            // A stopped one may be within a transaction, and keep readers out.
            soak.all_go_on();
            let entries = harness.open(NAME).await.entries().await;
            // What is acknowledged only now may be there later than it was read.
            let wrong = violations(&entries, &BTreeSet::new());
            if !wrong.is_empty() {
                return wrong;
            }
        }
    });
    let found = found.await;
    assert!(found.is_ok(), "{what}: the soak is blind");
    soak.end().await;
}

// ===== impl Soak =====

impl<'a> Soak<'a> {
    fn start(what: &str, harness: &'a dyn Keyed, target: &Target, off: Option<Token>) -> Self {
        let seed = std::env::var("SEED")
            .ok()
            .and_then(|seed| seed.parse().ok());
        let seed = seed.unwrap_or_else(|| fastrand::u64(..));
        println!("{what}: SEED={seed}");
        let counts = Arc::<Counts>::default();
        let mut listeners = Vec::new();
        let writers = [(); 2].map(|()| {
            let mut process = start(target, NAME);
            let input = process.input.take().expect("piped");
            let mut output = process.output.take().expect("piped");
            assert_eq!(hear(&mut output).as_deref(), Some("started"));
            let counts = Arc::clone(&counts);
            listeners.push(std::thread::spawn(move || {
                while let Some(words) = hear(&mut output) {
                    match words.split_once(' ') {
                        Some(("wrote", id)) => drop(counts.wrote.lock().unwrap().insert(id.into())),
                        Some(("stale", _)) => *counts.stale.lock().unwrap() += 1,
                        _ => {}
                    }
                }
            }));
            Writer {
                process,
                input,
                is_stopped: false,
            }
        });
        Self {
            harness,
            writers,
            listeners,
            counts,
            stopped: [0; 2],
            takeovers: 0,
            rng: Rng::with_seed(seed),
            off,
        }
    }

    fn has_shown_enough(&self) -> bool {
        let is_stale = *self.counts.stale.lock().unwrap() >= ENOUGH;
        let wrote = self.counts.wrote.lock().unwrap().len() as u64 >= 10 * ENOUGH;
        is_stale && wrote && self.stopped.iter().all(|stopped| *stopped >= ENOUGH)
    }

    /// Does something to one of them, and lets them go on for a moment.
    async fn step(&mut self) {
        let which = self.rng.usize(..2);
        match self.rng.u8(..4) {
            0 | 1 => self.take_over(which).await,
            _ if self.writers[which].is_stopped => self.go_on(which),
            _ => self.stop(which).await,
        }
        sleep(Duration::from_millis(self.rng.u64(2..60))).await;
    }

    /// Tells one that it leads, and not the other that its time is over.
    async fn take_over(&mut self, which: usize) {
        let token = self.harness.next_token(NAME).await;
        self.takeovers += 1;
        let shown = self.off.as_ref().unwrap_or(&token);
        let key = self.harness.key_of(shown);
        let words = lead(token.number(), shown, key.as_ref());
        // A stopped one reads it when it goes on; until then it fits in the pipe.
        self.writers[which]
            .input
            .write_all(words.as_bytes())
            .unwrap();
    }

    async fn stop(&mut self, which: usize) {
        let writer = &mut self.writers[which];
        writer.process.signal("STOP");
        writer.is_stopped = true;
        loop {
            match writer.process.stopped_threads() {
                0 => sleep(Duration::from_millis(1)).await,
                stopped => {
                    self.stopped[which] += stopped;
                    return;
                }
            }
        }
    }

    fn go_on(&mut self, which: usize) {
        self.writers[which].process.signal("CONT");
        self.writers[which].is_stopped = false;
    }

    fn all_go_on(&mut self) {
        for which in 0..2 {
            self.go_on(which);
        }
    }

    /// Lets both come to an end, and reads the history.
    async fn end(&mut self) -> Vec<Entry> {
        self.all_go_on();
        for writer in &mut self.writers {
            writer.input.write_all(b"end\n").unwrap();
            while writer.process.child.try_wait().unwrap().is_none() {
                sleep(Duration::from_millis(5)).await;
            }
            let status = writer.process.child.wait().unwrap();
            assert!(status.success(), "a writer ended by {status}");
        }
        for listener in self.listeners.drain(..) {
            listener.join().unwrap();
        }
        self.harness.open(NAME).await.entries().await
    }
}

fn number(entry: &Entry) -> u64 {
    let number = entry
        .id
        .split('-')
        .next()
        .and_then(|number| number.parse().ok());
    number.expect("a writer's id")
}

/// What is wrong with a history: a number below an earlier one, an entry that is there
/// twice, and one that was acknowledged and is not there.
fn violations(entries: &[Entry], wrote: &BTreeSet<String>) -> Vec<String> {
    let mut wrong = Vec::new();
    let mut highest = 0;
    let mut there = BTreeSet::new();
    for entry in entries {
        if number(entry) < highest {
            wrong.push(format!("{} is stale behind {highest}", entry.id));
        }
        highest = highest.max(number(entry));
        if !there.insert(entry.id.as_str()) {
            wrong.push(format!("{} is there twice", entry.id));
        }
    }
    let missing = wrote.iter().filter(|id| !there.contains(id.as_str()));
    wrong.extend(missing.map(|id| format!("{id} is missing")));
    wrong
}
