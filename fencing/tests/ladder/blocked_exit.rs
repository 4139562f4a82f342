//! Ends of a process that hang.
#![expect(unsafe_code, reason = "handlers are set by functions of the C library")]

use std::io::Write;
use std::os::fd::AsFd;
use std::process;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Duration;

use fencing::EXIT_CODE;

use crate::{block, child, config, guard};

extern "C" fn block_at_exit() {
    block()
}

extern "C" fn block_on_signal(_signal: libc::c_int) {
    block()
}

#[expect(clippy::disallowed_methods, reason = "an exit that hangs is wanted")]
fn begin_to_exit() {
    // SAFETY: the handler only blocks.
    assert_eq!(unsafe { libc::atexit(block_at_exit) }, 0);
    thread::spawn(|| process::exit(0));
    thread::sleep(Duration::from_millis(50));
}

pub(crate) fn block_in_exit() {
    let _guarded = guard(config());
    begin_to_exit();
    block()
}

/// What the crate must not do: it waits for the exit that hangs.
#[expect(clippy::disallowed_methods, reason = "the negative control")]
pub(crate) fn block_in_exit_without_us() {
    begin_to_exit();
    child::tell("exiting", "now");
    process::exit(EXIT_CODE)
}

#[test]
fn an_exit_that_hangs_does_not_delay_the_end() {
    child::run("block_in_exit").assert_fenced();
}

#[test]
fn the_exit_of_the_standard_library_would_hang() {
    let mut running = child::start("block_in_exit_without_us");
    running.told("exiting");
    assert!(!running.ends_within(Duration::from_secs(1)));
}

pub(crate) fn block_on_abort_signal() {
    let handler: extern "C" fn(libc::c_int) = block_on_signal;
    // SAFETY: the handler only blocks.
    unsafe { libc::signal(libc::SIGABRT, handler as libc::sighandler_t) };
    let _guarded = guard(config());
    block()
}

#[test]
fn a_handler_of_the_abort_signal_does_not_delay_the_end() {
    child::run("block_on_abort_signal").assert_fenced();
}

static IS_FULL: AtomicBool = AtomicBool::new(false);

pub(crate) fn write_to_a_full_pipe() {
    let stderr = std::io::stderr();
    // The pipe's end is shared with nobody but the parent, who does not read.
    let copy = stderr.as_fd().try_clone_to_owned().unwrap();
    thread::spawn(move || {
        let mut pipe = std::fs::File::from(copy);
        loop {
            pipe.write_all(&[b'x'; 4096]).unwrap();
            IS_FULL.store(false, Ordering::SeqCst);
        }
    });
    // Full once a while has passed without a write that came back.
    while !IS_FULL.swap(true, Ordering::SeqCst) {
        thread::sleep(Duration::from_millis(50));
    }
    let _guarded = guard(config());
    block()
}

#[test]
fn last_words_into_a_full_pipe_do_not_delay_the_end() {
    let ended = child::run("write_to_a_full_pipe");
    ended.assert_fenced();
    assert!(!ended.stderr.contains("fencing:"), "the pipe was not full");
}
