//! Recipes that compile and do not work.

use std::io::{BufRead, BufReader};
use std::process::{Command, Stdio};

#[test]
fn all_three_crates_commit_two_terms_one_after_the_other() {
    let output = Command::new(env!("CARGO_BIN_EXE_all-three"))
        .output()
        .unwrap();
    let told = String::from_utf8_lossy(&output.stdout);
    let expected: Vec<_> = (1..=2)
        .flat_map(|term| (1..=3).map(move |epoch| (term, epoch)))
        .map(|(term, epoch)| format!("term {term} commits epoch {epoch}, answers: 1"))
        .collect();
    assert_eq!(told.lines().collect::<Vec<_>>(), expected, "{output:?}");
    assert!(output.status.success());
}

#[test]
fn a_leader_that_is_told_to_stop_is_not_ready_gives_its_lease_back_and_exits_with_zero() {
    let folder = tempfile::tempdir().unwrap();
    let ready = folder.path().join("ready");
    let mut child = Command::new(env!("CARGO_BIN_EXE_graceful-shutdown"))
        .arg(&ready)
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
    let mut next = move || lines.next().map(Result::unwrap);
    assert_eq!(next().as_deref(), Some("leads with token 1"));
    assert!(ready.exists());
    let told = Command::new("kill")
        .args(["-TERM", &child.id().to_string()])
        .status();
    assert!(told.unwrap().success());
    // In this order: nothing is sent here any more by the time that the next one leads.
    assert_eq!(next().as_deref(), Some("is no longer ready"));
    assert_eq!(next().as_deref(), Some("the lease is released"));
    assert!(!ready.exists());
    assert_eq!(child.wait().unwrap().code(), Some(0));
}

#[test]
fn a_leader_that_cannot_start_says_what_to_do() {
    let output = Command::new(env!("CARGO_BIN_EXE_graceful-shutdown"))
        .arg("/proc/none/ready")
        .output()
        .unwrap();
    assert_eq!(output.status.code(), Some(2));
    let told = String::from_utf8(output.stderr).unwrap();
    assert!(
        told.ends_with("name a file that can be written\n"),
        "{told}"
    );
}
