//! A judge that accepts everything is worth nothing: each check has a run that breaks it.

use super::*;
use crate::chaos::fault::Kind;
use crate::chaos::timeline::{Proof, Record};
use crate::etcd::Commit;
use crate::wire::{Applied, Delta, Manifest};

/// A run in which everything holds, for a test to break.
struct Run {
    history: History,
    files: BTreeMap<String, SystemTime>,
    additions: Vec<Addition>,
    timeline: Timeline,
    length: Duration,
}

fn written(second: u64) -> SystemTime {
    SystemTime::UNIX_EPOCH + Duration::from_secs(second)
}

fn record(resumed: Option<u64>) -> Record {
    Record {
        kind: Kind::KillLeader,
        target: "meta-1".to_owned(),
        began: Duration::from_secs(5),
        ended: Duration::from_secs(5),
        proof: Proof::new(1, "killed"),
        resumed: resumed.map(Duration::from_secs),
    }
}

impl Run {
    /// Three epochs under two tokens, by two workers; one input was added.
    fn new() -> Self {
        let epochs = [Epoch::new(4, 2), Epoch::new(4, 3), Epoch::new(9, 2)];
        let mut commits = Vec::new();
        let mut files = BTreeMap::new();
        for (at, epoch) in (1..).zip(epochs) {
            let names = ["w1", "w2"].map(|w| format!("{}-{}-{w}", epoch.term, epoch.n));
            files.extend(names.clone().map(|name| (name, written(at))));
            let deltas = names.map(|name| Delta {
                name,
                ..Delta::default()
            });
            let manifest = Manifest {
                epoch: Some(epoch),
                deltas: deltas.to_vec(),
                ..Manifest::default()
            };
            commits.push(Commit {
                revision: 10,
                leader: epoch.term,
                manifest,
            });
        }
        commits[1].manifest.applied.push(Applied {
            says: "/in/one: 1 files, 7 bytes".to_owned(),
            ..Applied::default()
        });
        let mut timeline = Timeline::default();
        timeline.push(record(Some(8)));
        Self {
            history: History {
                commits,
                violations: Vec::new(),
                ends: BTreeMap::new(),
            },
            files,
            additions: vec![Addition {
                path: "/in/one".into(),
                told: Told::Served,
            }],
            timeline,
            length: Duration::from_secs(6),
        }
    }

    /// Expects one violation with this text.
    #[track_caller]
    fn violates(&self, text: &str) {
        let found = self.violations();
        assert!(found.len() == 1 && found[0].contains(text), "{found:?}");
    }

    fn violations(&self) -> Vec<String> {
        Evidence::new(
            &self.history,
            &self.files,
            &self.additions,
            &self.timeline,
            Limits::for_ttl(Duration::from_secs(3)),
            self.length,
        )
        .violations()
    }
}

#[test]
fn a_run_in_which_everything_holds_has_no_violation() {
    assert_eq!(Run::new().violations(), Vec::<String>::new());
}

#[test]
fn what_the_history_shows_is_a_violation() {
    let mut run = Run::new();
    run.history.violations.push("a fork".to_owned());
    run.violates("a fork");
}

#[test]
fn a_snapshot_that_its_epoch_does_not_name_is_an_answer_that_was_not_waited_for() {
    let mut run = Run::new();
    run.history.commits[1].manifest.deltas.pop();
    run.violates("epoch 4.3 was committed without 4-3-w2");
    // Of an epoch that was never committed it is none.
    let mut run = Run::new();
    run.files.insert("4-4-w2".to_owned(), written(2));
    assert!(run.violations().is_empty());
}

#[test]
fn a_snapshot_that_nobody_wrote_is_a_violation() {
    let mut run = Run::new();
    run.files.remove("9-2-w1");
    run.violates("epoch 9.2 names 9-2-w1, which nobody has written");
}

#[test]
fn a_snapshot_of_an_older_term_after_one_of_a_newer_is_a_violation() {
    let mut run = Run::new();
    run.files.insert("4-4-w1".to_owned(), written(9));
    run.violates("w1 wrote for 4.4 after it had for 9.2");
}

#[test]
fn what_was_served_is_in_the_chain_once() {
    let mut run = Run::new();
    let again = run.history.commits[1].manifest.applied.clone();
    run.history.commits[2].manifest.applied = again;
    run.violates("/in/one was added 2 times");
    run.additions[0].told = Told::Nothing;
    run.violates("/in/one was added 2 times");
    let mut run = Run::new();
    run.history.commits[1].manifest.applied.clear();
    run.violates("/in/one was added 0 times");
    run.additions[0].told = Told::NotServed;
    assert!(run.violations().is_empty());
    let mut run = Run::new();
    run.additions[0].told = Told::NotServed;
    run.violates("/in/one was added 1 times");
    // Another path that begins alike is another.
    run.additions[0].path = "/in/on".into();
    assert!(run.violations().is_empty());
}

#[test]
fn commits_that_do_not_go_on_in_time_are_a_violation() {
    let mut run = Run::new();
    run.timeline.push(record(Some(11)));
    run.violates("the next commit came 6.00s after kill-leader of meta-1, not within 5s");
    let mut run = Run::new();
    run.timeline.push(record(None));
    run.violates("no commit came after kill-leader");
}

#[test]
fn too_few_commits_are_a_violation() {
    let mut run = Run::new();
    run.length = Duration::from_secs(60);
    run.violates("3 commits only");
}

#[test]
fn a_fault_without_proof_is_named_and_not_counted() {
    let mut run = Run::new();
    let mut unproven = record(Some(6));
    unproven.proof.count = 0;
    run.timeline.push(unproven);
    assert_eq!(run.timeline.missing(), ["kill-leader meta-1: 0 killed"]);
    let limits = Limits::for_ttl(Duration::from_secs(3));
    let rows = run.timeline.rows(&limits);
    assert_eq!((rows.len(), rows[0].count), (1, 1));
    assert_eq!(rows[0].longest, Some(Duration::from_secs(3)));
    assert_eq!(rows[0].bound, Duration::from_secs(5));
    run.timeline.push(record(None));
    assert_eq!(run.timeline.rows(&limits)[0].longest, None);
    assert!(run.timeline.table(&limits).contains("never"));
}
