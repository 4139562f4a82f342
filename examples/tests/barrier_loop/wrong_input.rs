//! Wrong input ends with one clear line and exit code 2, and leaves nothing behind.

use std::path::Path;
use std::process::{Command, Stdio};

use crate::support::{Run, barrier_loop, folder, names, run, text};

/// Fails unless the run ended with code 2 and one line that holds `expected`.
#[track_caller]
fn expect_one_line(run: Run, expected: &str) {
    let run = run.expect_code(2);
    assert_eq!(run.err.lines().count(), 1, "{}", run.err);
    assert!(run.err.contains(expected), "{}", run.err);
    assert_eq!(run.out, "");
}

#[test]
fn a_path_that_does_not_exist_is_named() {
    let (_kept, folder) = folder();
    let out = folder.join("out");
    let missing = folder.join("no-such-file");
    expect_one_line(run(["--out", text(&out)], &[&missing]), "no-such-file");
    assert!(!out.exists(), "nothing is left behind");
}

#[test]
fn values_out_of_range_are_named() {
    let inputs: [&Path; 0] = [];
    expect_one_line(run(["--workers", "0"], &inputs), "--workers");
    expect_one_line(run(["--interval", "0s"], &inputs), "--interval");
    expect_one_line(run(["--interval", "soon"], &inputs), "--interval");
    expect_one_line(run(["--epoch-bytes", "0"], &inputs), "--epoch-bytes");
    expect_one_line(
        run(["--kill-leader-at", "200%"], &inputs),
        "--kill-leader-at",
    );
    expect_one_line(run(["--no-such-option", "1"], &inputs), "--no-such-option");
}

#[test]
fn a_folder_without_files_is_no_input() {
    let (_kept, folder) = folder();
    expect_one_line(run([], &[&folder]), "no file");
}

/// Root reads everything, so the program runs as somebody else where the test is root.
#[test]
fn an_unreadable_file_is_named() {
    let (_kept, folder) = folder();
    let program = folder.join("barrier-loop");
    std::fs::copy(barrier_loop().get_program(), &program).unwrap();
    let secret = folder.join("secret");
    std::fs::write(&secret, "text").unwrap();
    for (path, mode) in [(&folder, "755"), (&program, "755"), (&secret, "000")] {
        let done = Command::new("chmod").arg(mode).arg(path).status().unwrap();
        assert!(done.success());
    }
    let is_root = std::fs::read(&secret).is_ok();
    let mut command = if is_root {
        let mut other = Command::new("setpriv");
        other.args(["--reuid=65534", "--regid=65534", "--clear-groups"]);
        other.arg(&program);
        other
    } else {
        Command::new(&program)
    };
    let output = command.arg(&secret).stdin(Stdio::null()).output();
    let output = output.expect("setpriv is missing: install the package util-linux");
    expect_one_line(Run::of(output), "secret");
}

#[test]
fn an_output_folder_that_cannot_be_made_is_named() {
    let (_kept, folder) = folder();
    let file = folder.join("a-file");
    std::fs::write(&file, "text").unwrap();
    let under = file.join("out");
    expect_one_line(run(["--out", text(&under)], &[&file]), "a-file");
    expect_one_line(run(["--out", text(&file)], &[&file]), "a-file");
    // Nor do the folders on the way to one that cannot be made.
    let deep = folder.join("n1/n2").join("x".repeat(300));
    expect_one_line(run(["--out", text(&deep)], &[&file]), "n1");
    assert_eq!(names(&folder), ["a-file"]);
}

#[test]
fn an_output_folder_of_something_else_is_left_alone() {
    let (_kept, folder) = folder();
    let (input, out) = (folder.join("input"), folder.join("out"));
    std::fs::write(&input, "text").unwrap();
    std::fs::create_dir(&out).unwrap();
    std::fs::write(out.join("thesis.txt"), "years of work").unwrap();
    expect_one_line(run(["--out", text(&out)], &[&input]), "thesis.txt");
    assert_eq!(names(&out), ["thesis.txt"]);
}

#[test]
fn an_output_folder_in_use_is_refused_and_the_other_run_goes_on() {
    let (_kept, folder) = folder();
    let (input, out) = (folder.join("input"), folder.join("out"));
    std::fs::write(&input, "text").unwrap();
    let held = examples::store::Store::open(&out).unwrap();
    let before = names(&out);
    expect_one_line(run(["--out", text(&out)], &[&input]), "in use");
    assert_eq!(names(&out), before);
    drop(held);
    run(["--out", text(&out)], &[&input]).expect_code(0);
}

#[test]
fn an_output_folder_of_another_input_is_refused() {
    let (_kept, folder) = folder();
    let (one, two, out) = (folder.join("one"), folder.join("two"), folder.join("out"));
    std::fs::write(&one, "text").unwrap();
    std::fs::write(&two, "text").unwrap();
    run(["--out", text(&out)], &[&one]).expect_code(0);
    expect_one_line(run(["--out", text(&out)], &[&two]), "--out");
    std::fs::write(&one, "more text").unwrap();
    expect_one_line(run(["--out", text(&out)], &[&one]), "one");
}

#[test]
fn an_output_folder_above_the_input_is_refused() {
    let (_kept, folder) = folder();
    let input = folder.join("input");
    std::fs::write(&input, "text").unwrap();
    expect_one_line(run(["--out", text(&folder)], &[&input]), "input");
    assert_eq!(names(&folder), ["input"]);
}

#[test]
fn what_is_no_file_is_named_in_one_line() {
    let nothing: [&Path; 0] = [];
    expect_one_line(run(["/dev/zero"], &nothing), "/dev/zero");
    expect_one_line(run(["in/new\nline"], &nothing), "new\\nline");
    expect_one_line(run(["--workers", "a\nb"], &nothing), "--workers");
    expect_one_line(run(["--kill-leader-at", "30"], &nothing), "30%");
}

#[test]
fn a_missing_or_cut_delta_is_named_before_anything_is_read() {
    let (_kept, folder) = folder();
    let (input, out) = (folder.join("input"), folder.join("out"));
    std::fs::write(&input, "text").unwrap();
    run(["--out", text(&out)], &[&input]).expect_code(0);
    let delta = names(&out.join("deltas")).remove(0);
    let path = out.join("deltas").join(&delta);
    let whole = std::fs::read(&path).unwrap();
    std::fs::write(&path, &whole[..whole.len() - 1]).unwrap();
    expect_one_line(run(["--out", text(&out)], &[&input]), &delta);
    std::fs::remove_file(&path).unwrap();
    expect_one_line(run(["--out", text(&out)], &[&input]), &delta);
    // Of the right length, but not what was written: found when it is merged.
    let mut changed = whole.clone();
    changed[6] ^= 1;
    std::fs::write(&path, &changed).unwrap();
    expect_one_line(run(["--out", text(&out)], &[&input]), &delta);
    std::fs::write(&path, &whole).unwrap();
    run(["--out", text(&out)], &[&input]).expect_code(0);
}

#[test]
fn too_few_open_files_are_named_at_the_start() {
    let script = "ulimit -n 64 && exec \"$@\"";
    let program = barrier_loop().get_program().to_owned();
    let output = Command::new("sh")
        .args(["-c", script, "sh"])
        .arg(program)
        .output();
    expect_one_line(Run::of(output.unwrap()), "ulimit -n");
}

#[test]
fn a_kill_that_does_not_happen_is_exit_code_3() {
    let (_kept, folder) = folder();
    let input = folder.join("input");
    std::fs::write(&input, "text").unwrap();
    let run = run(["--kill-worker-at", "10m"], &[&input]).expect_code(3);
    assert!(run.out.contains("kill of the worker"), "{}", run.out);
}
