use std::path::Path;
use std::sync::Arc;

use super::*;
use crate::input::{InputPlan, find_files};

struct Node {
    counter: Counter,
    plan: Arc<InputPlan>,
    folder: tempfile::TempDir,
}

fn node() -> Node {
    let folder = tempfile::tempdir().unwrap();
    std::fs::create_dir(folder.path().join("in")).unwrap();
    std::fs::create_dir(folder.path().join("deltas")).unwrap();
    let text = "one two\nthree\n".repeat(2000);
    std::fs::write(folder.path().join("in/text"), text).unwrap();
    let found = find_files(&[folder.path().join("in")], None, false).unwrap();
    let plan = Arc::new(InputPlan::new(found).unwrap());
    Node {
        counter: Counter::new("w1", Arc::clone(&plan), folder.path().join("deltas")),
        plan,
        folder,
    }
}

fn reset(n: u64, positions: Vec<Position>, quota_bytes: u64) -> Command {
    Command {
        epoch: Some(Epoch::new(1, n)),
        kind: Some(command::Kind::Reset(Reset {
            base: None,
            positions,
            quota_bytes,
            parts: Vec::new(),
        })),
    }
}

fn barrier(n: u64, prev: u64, quota_bytes: u64) -> Command {
    Command {
        epoch: Some(Epoch::new(1, n)),
        kind: Some(command::Kind::Barrier(Barrier {
            prev: Some(Epoch::new(1, prev)),
            quota_bytes,
        })),
    }
}

fn snapshot_of(reply: Reply) -> Snapshot {
    match reply.kind {
        Some(reply::Kind::Snapshot(snapshot)) => snapshot,
        other => panic!("not a snapshot: {other:?}"),
    }
}

fn work(counter: &mut Counter) {
    while counter.has_work() {
        counter.step();
    }
}

fn files(folder: &Path) -> usize {
    std::fs::read_dir(folder.join("deltas")).unwrap().count()
}

#[test]
fn a_quota_bounds_what_is_read_before_the_next_barrier() {
    let mut node = node();
    node.counter.command(reset(1, node.plan.start(), 1000));
    work(&mut node.counter);
    let progress = node.counter.progress();
    assert_eq!((progress.bytes, progress.waiting), (1000, true));
    let snapshot = snapshot_of(node.counter.command(barrier(2, 1, u64::MAX)));
    assert_eq!(snapshot.bytes, 1000);
    let left: u64 = snapshot
        .positions
        .iter()
        .map(|p| node.plan.remaining(p))
        .sum();
    assert_eq!(left, node.plan.total_bytes() - 1000);
    work(&mut node.counter);
    assert!(node.counter.progress().finished);
    let rest = snapshot_of(node.counter.command(barrier(3, 2, 0)));
    assert_eq!(rest.bytes, node.plan.total_bytes() - 1000);
    assert_eq!(snapshot.rows + rest.rows, 4000);
    assert_eq!(files(node.folder.path()), 2);
    let idle = snapshot_of(node.counter.command(barrier(4, 3, 0)));
    assert_eq!((idle.delta, idle.bytes), (None, 0));
}

#[test]
fn a_barrier_that_does_not_follow_the_last_one_is_refused() {
    let mut node = node();
    let reply = node.counter.command(barrier(2, 1, 0));
    assert!(matches!(reply.kind, Some(reply::Kind::Refused(_))));
    node.counter.command(reset(3, node.plan.start(), 100));
    work(&mut node.counter);
    let reply = node.counter.command(barrier(5, 4, 0));
    assert!(matches!(reply.kind, Some(reply::Kind::Refused(_))));
    assert_eq!(reply.epoch, Some(Epoch::new(1, 5)));
    // Nothing was lost by the refusal: the right one still gets all.
    assert_eq!(
        snapshot_of(node.counter.command(barrier(6, 3, 0))).bytes,
        100
    );
}

#[test]
fn a_reset_forgets_what_was_counted_since_the_named_epoch() {
    let mut node = node();
    node.counter.command(reset(1, node.plan.start(), 500));
    work(&mut node.counter);
    node.counter.command(reset(2, node.plan.start(), 300));
    work(&mut node.counter);
    assert_eq!(
        snapshot_of(node.counter.command(barrier(3, 2, 0))).bytes,
        300
    );
}

#[test]
fn an_input_that_changed_is_reported_at_the_next_barrier() {
    let mut node = node();
    std::fs::write(node.folder.path().join("in/text"), "short").unwrap();
    node.counter.command(reset(1, node.plan.start(), u64::MAX));
    work(&mut node.counter);
    assert!(node.counter.progress().waiting);
    let reply = node.counter.command(barrier(2, 1, 0));
    assert!(matches!(reply.kind, Some(reply::Kind::InputFailed(why)) if why.contains("text")));
}

#[test]
fn odd_commands_are_refused() {
    let mut node = node();
    let unknown = Position {
        shard: 1_000,
        ..Position::default()
    };
    for command in [
        Command::default(),
        Command {
            epoch: Some(Epoch::new(1, 1)),
            kind: None,
        },
        reset(1, vec![unknown], 1),
    ] {
        let reply = node.counter.command(command);
        assert!(matches!(reply.kind, Some(reply::Kind::Refused(_))));
    }
}

#[test]
fn a_snapshot_that_cannot_be_written_loses_no_count() {
    let mut node = node();
    node.counter.command(reset(1, node.plan.start(), 700));
    work(&mut node.counter);
    let (deltas, away) = (
        node.folder.path().join("deltas"),
        node.folder.path().join("away"),
    );
    std::fs::rename(&deltas, &away).unwrap();
    let reply = node.counter.command(barrier(2, 1, 0));
    assert!(matches!(reply.kind, Some(reply::Kind::Refused(_))));
    std::fs::rename(&away, &deltas).unwrap();
    assert_eq!(
        snapshot_of(node.counter.command(barrier(3, 1, 0))).bytes,
        700
    );
}
