//! A second start on the same output folder goes on from the last committed epoch.

use std::os::unix::process::ExitStatusExt;
use std::path::Path;
use std::process::{Child, Stdio};
use std::time::Duration;

use crate::support::{
    Numbers, Run, barrier_loop, check_finished, folder, make_tree, poll, run, send, text, wait,
};
use examples::store::Store;

/// Small epochs on purpose: the run is long enough to be caught in the middle.
fn start(input: &Path, out: &Path) -> Child {
    barrier_loop()
        .args(["--epoch-bytes", "16k", "--no-compare", "--out", text(out)])
        .arg(input)
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap()
}

/// Waits until the chain's file has grown to `bytes`.
fn wait_for_chain(out: &Path, bytes: u64) {
    let len = || std::fs::metadata(out.join("chain")).map_or(0, |meta| meta.len());
    let grown = poll(Duration::from_secs(15), || (len() >= bytes).then_some(()));
    grown.expect("the chain does not grow");
}

#[test]
fn after_an_interrupt_it_goes_on_and_reads_no_committed_byte_again() {
    let (_kept, folder) = folder();
    let (input, out) = (folder.join("input"), folder.join("out"));
    // Few different words: the deltas, which are read too, stay small beside the input.
    std::fs::write(&input, "a few words, again and again\n".repeat(1_000_000)).unwrap();
    let child = start(&input, &out);
    wait_for_chain(&out, 400_000);
    send("INT", &child);
    let output = child.wait_with_output().unwrap();
    let first = Run::of(output).expect_code(130);
    assert!(first.out.contains("is durable"), "{}", first.out);
    let done = first.number_after("bytes,");
    let total = first.number_after("input");
    assert!(done > 0 && done < total, "{done} of {total}");
    let (second, read) = run_counting_reads(&input, &out);
    // What it reads beside the input: the plan, the chain, the deltas of the merge
    // (which is done in two passes), and the program's own libraries.
    let deltas = folder_bytes(&out.join("deltas"));
    let beside = 2 * deltas + folder_bytes(&out) + 500_000;
    println!("{total} bytes, {done} committed at first; the second process read {read} in all");
    assert!(beside < done, "{beside} would hide what is read again");
    assert!(read >= total - done, "the counter counts");
    assert!(
        read <= total - done + beside,
        "{read} > {} + {beside}",
        total - done
    );
    assert!(second.out.contains("not compared"), "{}", second.out);
    run(["--out", text(&out)], &[&input]).expect_code(0);
    check_finished(&out);
}

/// Runs the second process under a shell that prints the kernel's counters of it.
fn run_counting_reads(input: &Path, out: &Path) -> (Run, u64) {
    let script =
        "\"$@\"; code=$?; grep rchar /proc/self/io >/dev/null; cat /proc/$$/io >&2; exit $code";
    let output = std::process::Command::new("sh")
        .args(["-c", script, "sh"])
        .arg(barrier_loop().get_program())
        .args(["--epoch-bytes", "64k", "--no-compare", "--out", text(out)])
        .arg(input)
        .output()
        .unwrap();
    let run = Run::of(output).expect_code(0);
    let rchar = run
        .err
        .lines()
        .find_map(|line| line.strip_prefix("rchar: "));
    let read = rchar
        .expect("the kernel has no I/O counters")
        .parse()
        .unwrap();
    (run, read)
}

fn folder_bytes(folder: &Path) -> u64 {
    let entries = std::fs::read_dir(folder).unwrap();
    entries
        .map(|entry| entry.unwrap().metadata().unwrap().len())
        .sum()
}

#[test]
fn after_kill_9_at_20_random_times_it_ends_equal() {
    let (_kept, folder) = folder();
    let input = folder.join("input");
    make_tree(&input, 6_000_000);
    let seed = std::env::var("SEED").map_or(0xBA55, |seed| seed.parse().unwrap());
    println!("SEED={seed}");
    let mut numbers = Numbers(seed);
    let (mut killed, mut chains, mut terms) = (0, 0, 0);
    while killed < 20 {
        let out = folder.join(format!("out-{chains}"));
        chains += 1;
        killed += kill_until_finished(&input, &out, 20 - killed, &mut numbers);
        terms += terms_of(&out);
        let ended = run(["--out", text(&out)], &[&input]).expect_code(0);
        assert!(
            ended.out.contains("equal to a plain count"),
            "{}",
            ended.out
        );
        check_finished(&out);
        assert!(chains < 10, "{killed} kills in {chains} chains");
    }
    println!("{killed} runs were killed, in {chains} chains; {terms} of them had committed");
    assert!(
        terms >= 5,
        "only {terms} of the killed runs had committed anything"
    );
}

/// Returns how many terms have committed.
fn terms_of(out: &Path) -> usize {
    let epochs = Store::open(out).unwrap().snapshot().epochs;
    let terms: std::collections::BTreeSet<u64> = epochs.iter().map(|e| e.term).collect();
    terms.len()
}

/// Starts and kills runs on one folder; returns how many died by the signal.
fn kill_until_finished(input: &Path, out: &Path, most: u32, numbers: &mut Numbers) -> u32 {
    let mut killed = 0;
    while killed < most {
        let mut child = start(input, out);
        // The time itself is the random input.
        std::thread::sleep(Duration::from_millis(numbers.below(400)));
        child.kill().unwrap();
        match wait(child, Duration::from_secs(10)).signal() {
            Some(_) => killed += 1,
            None => return killed,
        }
    }
    killed
}
