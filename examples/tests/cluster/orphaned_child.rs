//! The one command: its result, and that nothing of it stays behind.

use std::path::Path;
use std::process::{Child, Command, Output, Stdio};
use std::time::Duration;

/// Processes whose command line names this folder.
fn processes(folder: &Path) -> usize {
    let folder = folder.to_str().unwrap();
    let all = std::fs::read_dir("/proc").unwrap().filter_map(Result::ok);
    let lines = all.filter_map(|entry| std::fs::read(entry.path().join("cmdline")).ok());
    lines
        .filter(|line| String::from_utf8_lossy(line).contains(folder))
        .count()
}

/// Asks until there is an answer: another process changes something, and there is
/// nothing to be woken by.
fn until(what: &str, mut ask: impl FnMut() -> bool) {
    for _ in 0..6000 {
        if ask() {
            return;
        }
        std::thread::sleep(Duration::from_millis(10));
    }
    panic!("never: {what}");
}

fn cluster(out: &Path, more: &[&str]) -> Child {
    Command::new(env!("CARGO_BIN_EXE_cluster"))
        .arg("--out")
        .arg(out)
        .args(more)
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap()
}

fn text(output: &Output) -> String {
    let err = String::from_utf8_lossy(&output.stderr);
    format!("{}{err}", String::from_utf8_lossy(&output.stdout))
}

#[test]
fn a_cluster_counts_to_an_equal_result_and_leaves_no_process() {
    let folder = tempfile::tempdir().unwrap();
    let (input, out) = (folder.path().join("input"), folder.path().join("out"));
    std::fs::write(&input, "some words, and words again\n".repeat(20_000)).unwrap();
    let input = input.to_str().unwrap();
    let ended = cluster(&out, &["--metas", "2", "--computes", "3", input]);
    let ended = ended.wait_with_output().unwrap();
    assert_eq!(ended.status.code(), Some(0), "{}", text(&ended));
    assert!(text(&ended).contains("equal to a plain count"));
    assert_eq!(processes(&out), 0);

    // Once more on the same folder: it is done, and only compared.
    let again = cluster(&out, &[input]).wait_with_output().unwrap();
    assert_eq!(again.status.code(), Some(0), "{}", text(&again));
    assert_eq!(processes(&out), 0);
}

#[test]
fn what_cannot_be_counted_ends_the_command_with_a_line_and_no_process() {
    let folder = tempfile::tempdir().unwrap();
    let out = folder.path().join("out");
    let ended = cluster(&out, &["/nowhere/at-all"])
        .wait_with_output()
        .unwrap();
    assert_eq!(ended.status.code(), Some(2), "{}", text(&ended));
    assert!(text(&ended).contains("/nowhere/at-all"), "{}", text(&ended));
    assert_eq!(processes(&out), 0);

    // A file that changed after it was added: no leader can go on.
    let input = folder.path().join("input");
    std::fs::write(&input, "some words\n".repeat(100_000)).unwrap();
    let stays = cluster(
        &out,
        &["--stay", "--epoch-bytes", "4k", input.to_str().unwrap()],
    );
    until("the first snapshot", || {
        std::fs::read_dir(out.join("deltas")).is_ok_and(|mut deltas| deltas.next().is_some())
    });
    std::fs::write(&input, "").unwrap();
    let ended = stays.wait_with_output().unwrap();
    assert_eq!(ended.status.code(), Some(2), "{}", text(&ended));
    assert!(text(&ended).contains("has changed"), "{}", text(&ended));
    assert_eq!(processes(&out), 0);
}

#[test]
fn every_child_ends_with_the_command_however_it_ends() {
    let folder = tempfile::tempdir().unwrap();
    let input = folder.path().join("input");
    std::fs::write(&input, "a few words\n").unwrap();
    for (signal, code) in [("TERM", Some(130)), ("KILL", None)] {
        let out = folder.path().join(signal);
        let mut started = cluster(&out, &["--stay", input.to_str().unwrap()]);
        // etcd, two candidates, three workers, and the command itself.
        until("all processes", || processes(&out) == 7);
        let pid = started.id().to_string();
        let sent = Command::new("kill")
            .args([&format!("-{signal}"), &*pid])
            .status();
        assert!(sent.unwrap().success());
        let ended = started.wait().unwrap();
        assert_eq!(ended.code(), code, "{signal}");
        until("the end of all", || processes(&out) == 0);
    }
}
