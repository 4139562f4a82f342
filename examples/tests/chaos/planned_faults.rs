//! Whatever a seed plans, everything holds; each fault has a count that proves it.

use std::io::{BufRead, BufReader};
use std::process::{Command, Stdio};

use crate::chaos;

/// Returns how many processes have this in their command line.
fn processes(text: &str) -> usize {
    let all = std::fs::read_dir("/proc").unwrap().filter_map(Result::ok);
    let lines = all.filter_map(|entry| std::fs::read(entry.path().join("cmdline")).ok());
    let lines = lines.map(|line| String::from_utf8_lossy(&line).into_owned());
    lines.filter(|line| line.contains(text)).count()
}

/// Returns how many seeds, the first of them, and for how long each.
fn extent() -> (u64, u64, &'static str) {
    let first = std::env::var("SEED").map_or(1, |seed| seed.parse().unwrap());
    match std::env::var_os("SOAK") {
        Some(_) => (first, 20, "120s"),
        None => (first, 2, "60s"),
    }
}

/// Runs a seed and expects that everything holds.
fn holds(seed: u64, length: &str) {
    let (code, text) = chaos(&["--seed", &seed.to_string(), "--for", length]);
    println!("{text}");
    assert_eq!(code, Some(0), "SEED={seed} plans the same again\n{text}");
    assert!(text.contains("equal to a plain count"), "{text}");
    // Leaders have written down what they did, and nothing of it was late.
    let wrote_down = |line: &str| line.starts_with("acts") && line.ends_with("of commits");
    assert!(text.lines().any(wrote_down), "{text}");
    assert!(!text.contains("ACTED LATE"), "{text}");
    let faults = text.lines().filter(|line| line.contains("next commit"));
    println!("CASE chaos fault={}", faults.count());
}

/// Two at a time: each is in namespaces of its own, and mostly waits.
#[test]
fn the_faults_of_a_seed_violate_nothing() {
    let (first, seeds, length) = extent();
    for seed in (first..first + seeds).step_by(2) {
        std::thread::scope(|scope| {
            for seed in seed..(first + seeds).min(seed + 2) {
                scope.spawn(move || holds(seed, length));
            }
        });
    }
}

#[test]
fn a_signal_ends_it_with_all_its_processes() {
    let folder = tempfile::tempdir().unwrap();
    let out = folder.path().to_str().unwrap();
    for (signal, code) in [("TERM", Some(130)), ("KILL", None)] {
        let out = format!("{out}/{signal}");
        let mut command = Command::new(env!("CARGO_BIN_EXE_chaos"));
        let command = command.args(["--only", "kill-worker", "--out", &out]);
        let mut child = command.stdout(Stdio::piped()).spawn().unwrap();
        // The seed, and the first fault.
        let lines = BufReader::new(child.stdout.take().unwrap()).lines();
        assert_eq!(lines.take(2).filter_map(Result::ok).count(), 2);
        assert!(processes(&out) > 5);
        let pid = child.id().to_string();
        let sent = Command::new("kill")
            .args([&format!("-{signal}"), &*pid])
            .status();
        assert!(sent.unwrap().success());
        assert_eq!(child.wait().unwrap().code(), code, "{signal}");
        for _ in 0..1000 {
            if processes(&out) == 0 {
                break;
            }
            std::thread::sleep(std::time::Duration::from_millis(10));
        }
        assert_eq!(processes(&out), 0, "{signal}");
    }
}

#[test]
fn what_cannot_be_run_is_one_line_and_code_2() {
    let folder = tempfile::tempdir().unwrap();
    std::fs::write(folder.path().join("file"), "x").unwrap();
    let (code, text) = chaos(&["--out", folder.path().to_str().unwrap()]);
    assert_eq!(code, Some(2), "{text}");
    assert!(text.contains("is not empty: name a new folder"), "{text}");
    let (code, text) = chaos(&["--only", "nothing"]);
    assert_eq!(code, Some(2), "{text}");
    assert!(text.contains("slow-disk"), "{text}");
}
