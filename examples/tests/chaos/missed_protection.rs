//! Negative controls: with parts of the protection left out, the judge finds what they
//! protect from. A judge that always agrees would fail here.

use crate::chaos;

/// Seeds that are tried, at the most.
const SEEDS: u64 = 10;

/// Leaves out some halves, and expects this violation within a few seeds.
#[track_caller]
fn violates(without: &[&str], only: &[&str], violation: &str) {
    shows(without, only, |code, line| {
        code == 1 && line.starts_with("VIOLATED") && line.contains(violation)
    });
}

/// Leaves out some halves, and expects such a line within a few seeds.
#[track_caller]
fn shows(without: &[&str], only: &[&str], is_it: impl Fn(i32, &str) -> bool) {
    let mut args = [&["--only"][..], only].concat();
    for half in without {
        args.extend(["--without", half]);
    }
    for seed in 1..=SEEDS {
        let seed = seed.to_string();
        let (code, text) = chaos(&[&args[..], &["--seed", &seed]].concat());
        println!("{text}");
        let code = code.filter(|code| [0, 1].contains(code)).expect(&text);
        if text.lines().any(|line| is_it(code, line)) {
            return;
        }
    }
    panic!("{SEEDS} seeds without {without:?} show nothing");
}

#[test]
fn without_the_comparison_of_the_head_a_late_commit_breaks_the_chain() {
    violates(
        &["compare-on-head"],
        &["hold-commit", "--for", "14s"],
        "does not follow",
    );
}

#[test]
fn without_guard_and_commit_guard_a_deposed_leader_commits() {
    let halves = ["guard", "commit-guard"];
    violates(
        &halves,
        &["revoke-lease", "--for", "14s"],
        "was committed while",
    );
}

/// A worker hears the barrier, or not, and its answer does not come: the round ends without
/// it, while its registration and its session live.
#[test]
fn with_a_failed_worker_counted_as_answered_an_epoch_lacks_a_snapshot() {
    violates(
        &["all-answers"],
        &["cut-worker-one-way", "--for", "8s"],
        "was committed without",
    );
}

/// With a longer lease the old leader lives for longer beside the next one.
#[test]
fn without_term_check_and_fence_a_worker_obeys_two_leaders() {
    violates(
        &["term-check", "fence"],
        &["late-orders", "--for", "8s", "--ttl", "8s"],
        "after it had for",
    );
}

/// What is not fenced is protected by the guard alone: it ends a leader in time. What the
/// store checks holds without it.
#[test]
fn without_the_guard_a_deposed_leader_acts_late_and_the_chain_holds() {
    let only = ["freeze-leader", "--for", "8s"];
    shows(&["guard"], &only, |code, line| {
        code == 0 && line.starts_with("ACTED LATE")
    });
}
