//! Foreign code that the watchdog runs: wakers, the hook of a panic in one, and handlers of
//! signals.
#![expect(unsafe_code, reason = "handlers are set by functions of the C library")]

use std::fs;
use std::future::Future;
use std::pin::pin;
use std::sync::Arc;
use std::task::{Context, Wake, Waker};
use std::time::Duration;

use fencing::{Backstop, EXIT_CODE, Watchdog, boot_time};

use crate::{LEAD, block, child, config, guard};

struct Blocking;

impl Wake for Blocking {
    fn wake(self: Arc<Self>) {
        block()
    }
}

struct Panicking;

impl Wake for Panicking {
    fn wake(self: Arc<Self>) {
        panic!("the test asked for it");
    }
}

fn wait_with(waker: Waker) {
    let (_watchdog, guard) = guard(config());
    let cancelled = pin!(guard.cancelled());
    let _ = cancelled.poll(&mut Context::from_waker(&waker));
    block()
}

pub(crate) fn block_a_waker() {
    wait_with(Arc::new(Blocking).into());
}

pub(crate) fn panic_in_a_waker() {
    std::panic::set_hook(Box::new(|_| block()));
    wait_with(Arc::new(Panicking).into());
}

#[test]
fn a_waker_that_blocks_does_not_delay_the_end() {
    child::run("block_a_waker").assert_fenced();
}

#[test]
fn a_panic_hook_that_blocks_does_not_delay_the_end() {
    child::run("panic_in_a_waker").assert_fenced();
}

/// The waker blocks the caller that tells of the loss, long before the lease ends.
pub(crate) fn lose_with_a_blocking_waker() {
    let watchdog = Watchdog::start(config().with_backstop(Backstop::Off)).unwrap();
    let hour = Duration::from_secs(3600);
    let guard = watchdog.guard(7, boot_time() + hour).unwrap();
    let cancelled = pin!(guard.cancelled());
    let waker = Waker::from(Arc::new(Blocking));
    let _ = cancelled.poll(&mut Context::from_waker(&waker));
    child::tell_deadline(boot_time() + LEAD);
    // So that somebody has to wake it.
    wait_until_both_sleep();
    guard.trip();
    block()
}

#[test]
fn a_waker_that_blocks_the_caller_does_not_keep_a_loss_from_the_thread() {
    let ended = child::run("lose_with_a_blocking_waker");
    assert_eq!(ended.status.code(), Some(EXIT_CODE), "{ended:?}");
}

extern "C" fn block_on_signal(_signal: libc::c_int) {
    block()
}

/// The ids of the watchdog's threads that sleep, by the kernel's list of threads.
fn sleeping_threads() -> Vec<i32> {
    let tasks = fs::read_dir("/proc/self/task").unwrap();
    let stats = tasks.filter_map(|task| fs::read_to_string(task.ok()?.path().join("stat")).ok());
    let ours = stats.filter(|stat| stat.contains("(fence-") && stat.contains(") S "));
    ours.map(|stat| stat.split(' ').next().unwrap().parse().unwrap())
        .collect()
}

fn wait_until_both_sleep() -> Vec<i32> {
    loop {
        let threads = sleeping_threads();
        if threads.len() == 2 {
            return threads;
        }
        std::thread::yield_now();
    }
}

pub(crate) fn signal_the_watchdogs_threads() {
    let handler: extern "C" fn(libc::c_int) = block_on_signal;
    // SAFETY: the handler only blocks.
    unsafe { libc::signal(libc::SIGUSR1, handler as libc::sighandler_t) };
    let _guarded = guard(config().with_backstop(Backstop::Off));
    for thread in wait_until_both_sleep() {
        // SAFETY: only numbers; the threads live as long as the guard does.
        let sent = unsafe { libc::tgkill(libc::getpid(), thread, libc::SIGUSR1) };
        assert_eq!(sent, 0);
    }
    block()
}

#[test]
fn a_signal_handler_that_blocks_does_not_hold_the_thread_up() {
    let ended = child::run("signal_the_watchdogs_threads");
    assert_eq!(ended.status.code(), Some(EXIT_CODE), "{ended:?}");
    assert!(ended.stderr.contains("was not renewed"), "{ended:?}");
}
