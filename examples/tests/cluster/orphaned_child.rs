//! The one command: its result, and that nothing of it stays behind.

use std::io::{BufRead, BufReader};
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Child, Command, Output, Stdio};
use std::time::Duration;

use rustix::process::{Pid, Signal, kill_process, kill_process_group};

/// Processes whose command line has this in it.
fn pids(part: &str) -> Vec<Pid> {
    let all = std::fs::read_dir("/proc").unwrap().filter_map(Result::ok);
    let has_part = |entry: &std::fs::DirEntry| {
        let line = std::fs::read(entry.path().join("cmdline")).unwrap_or_default();
        String::from_utf8_lossy(&line).contains(part)
    };
    let pid = |entry: std::fs::DirEntry| entry.file_name().to_str()?.parse().ok();
    let found = all.filter(has_part).filter_map(pid);
    found.filter_map(Pid::from_raw).collect()
}

/// How many processes name this folder.
fn processes(folder: &Path) -> usize {
    pids(folder.to_str().unwrap()).len()
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

fn command(out: &Path, more: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_cluster"));
    command
        .arg("--out")
        .arg(out)
        .args(more)
        .stdin(Stdio::null());
    command.stdout(Stdio::piped()).stderr(Stdio::piped());
    command
}

fn cluster(out: &Path, more: &[&str]) -> Child {
    command(out, more).spawn().unwrap()
}

/// Waits until it tells where its etcd is; returns with it what asks `meta` there.
fn started(out: &Path, mut cluster: Child) -> (Child, impl Fn(&str) -> String) {
    let mut line = String::new();
    let told = cluster.stderr.take().unwrap();
    BufReader::new(told).read_line(&mut line).unwrap();
    let endpoint = line.split_whitespace().nth(1).unwrap();
    let endpoint = endpoint.trim_end_matches(',').to_owned();
    let out = out.to_owned();
    let meta = move |verb: &str| {
        let mut meta = Command::new(env!("CARGO_BIN_EXE_meta"));
        meta.args([verb, "--etcd", &endpoint]);
        if verb == "restore" {
            meta.arg("--out").arg(&out);
        }
        text(&meta.output().unwrap())
    };
    (cluster, meta)
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

/// Its input is in the chain that the folder keeps: to add it to the new etcd, too, would
/// count it twice once that chain is back.
#[test]
fn a_cluster_whose_etcd_was_emptied_adds_nothing_again() {
    let folder = tempfile::tempdir().unwrap();
    let (input, out) = (folder.path().join("input"), folder.path().join("out"));
    let words = "some words, and words again\n".repeat(2_000);
    std::fs::write(&input, &words).unwrap();
    let input = input.to_str().unwrap();
    let (mut first, status) = started(&out, cluster(&out, &["--stay", input]));
    let all = format!("bytes {0} of {0}\n", words.len());
    until("all is counted", || status("status").contains(&all));
    kill_process(Pid::from_child(&first), Signal::TERM).unwrap();
    assert_eq!(first.wait().unwrap().code(), Some(130));
    std::fs::remove_dir_all(out.join("etcd")).unwrap();

    let (again, meta) = started(&out, cluster(&out, &[input]));
    until("it says what to do", || {
        meta("status").contains("run `meta restore` once")
    });
    let restored = meta("restore");
    assert!(restored.contains("the chain is restored"), "{restored}");
    let ended = again.wait_with_output().unwrap();
    assert_eq!(ended.status.code(), Some(0), "{}", text(&ended));
    assert!(text(&ended).contains("equal to a plain count"));
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

/// As by Ctrl-C in a terminal, which is for a whole group of processes.
#[test]
fn its_etcd_is_started_again_and_an_interrupt_of_its_group_ends_it_in_order() {
    let folder = tempfile::tempdir().unwrap();
    let (input, out) = (folder.path().join("input"), folder.path().join("out"));
    std::fs::write(&input, "a few words\n").unwrap();
    let mut command = command(&out, &["--stay", input.to_str().unwrap()]);
    let (mut first, meta) = started(&out, command.process_group(0).spawn().unwrap());
    let counts = || meta("status").contains("bytes 12 of 12\n");
    until("all is counted", counts);
    let data = out.join("etcd").to_str().unwrap().to_owned();
    let etcd = || pids(&data).into_iter().next();
    let killed = etcd().unwrap();
    kill_process(killed, Signal::KILL).unwrap();
    until("another etcd", || {
        etcd().is_some_and(|pid| pid != killed) && counts()
    });
    kill_process_group(Pid::from_child(&first), Signal::INT).unwrap();
    assert_eq!(first.wait().unwrap().code(), Some(130));
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
