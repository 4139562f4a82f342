//! An output that nobody reads, or that is closed, stops nothing.

use std::io::Write;
use std::process::{Child, Stdio};
use std::time::Duration;

use crate::support::{barrier_loop, folder, make_tree, poll, send, text, wait};
use examples::store::Store;

/// Starts it with both outputs in a pipe that is full and that nobody reads.
fn start_on_full_pipe(
    out: &std::path::Path,
    input: &std::path::Path,
) -> (Child, std::io::PipeReader) {
    let (reader, mut writer) = std::io::pipe().unwrap();
    let handles = (writer.try_clone().unwrap(), writer.try_clone().unwrap());
    let filler = std::thread::spawn(move || {
        // Ends with the pipe: the write that does not fit blocks until the reader goes.
        let _ = writer.write_all(&vec![b'x'; 4 << 20]);
    });
    let child = barrier_loop()
        .args(["--out", text(out)])
        .arg(input)
        .stdout(Stdio::from(handles.0))
        .stderr(Stdio::from(handles.1))
        .spawn()
        .unwrap();
    drop(filler);
    (child, reader)
}

fn wait_for_last_epoch(out: &std::path::Path) {
    let totals = || out.join("counts.tsv").exists().then_some(());
    poll(Duration::from_secs(30), totals).expect("the totals do not appear");
}

#[test]
fn on_a_full_pipe_every_epoch_is_committed_and_an_interrupt_ends_it() {
    let (_kept, folder) = folder();
    let (input, out) = (folder.join("input"), folder.join("out"));
    make_tree(&input, 500_000);
    let (mut child, reader) = start_on_full_pipe(&out, &input);
    wait_for_last_epoch(&out);
    assert!(
        child.try_wait().unwrap().is_none(),
        "it waits for its reader"
    );
    send("INT", &child);
    let status = wait(child, Duration::from_secs(5));
    assert!(status.code().is_some(), "{status}");
    drop(reader);
    assert!(Store::open(&out).unwrap().head().last);
}

#[test]
fn a_log_that_nobody_reads_any_more_is_no_failure() {
    let (_kept, folder) = folder();
    let input = folder.join("input");
    make_tree(&input, 300_000);
    let (reader, writer) = std::io::pipe().unwrap();
    drop(reader);
    let child = barrier_loop()
        .arg("--verbose")
        .arg(&input)
        .stdout(Stdio::null())
        .stderr(Stdio::from(writer))
        .spawn()
        .unwrap();
    assert_eq!(wait(child, Duration::from_secs(60)).code(), Some(0));
}

#[test]
fn a_closed_output_is_no_failure() {
    let (_kept, folder) = folder();
    let (input, out) = (folder.join("input"), folder.join("out"));
    make_tree(&input, 500_000);
    let (reader, writer) = std::io::pipe().unwrap();
    drop(reader);
    let child = barrier_loop()
        .args(["--out", text(&out)])
        .arg(&input)
        .stdout(Stdio::from(writer.try_clone().unwrap()))
        .stderr(Stdio::from(writer))
        .spawn()
        .unwrap();
    let status = wait(child, Duration::from_secs(60));
    assert_eq!(status.code(), Some(0));
    assert!(Store::open(&out).unwrap().head().last);
}
