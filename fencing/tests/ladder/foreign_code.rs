//! Foreign code that the watchdog runs: wakers, and the hook of a panic in one.

use std::future::Future;
use std::pin::pin;
use std::sync::Arc;
use std::task::{Context, Wake, Waker};

use crate::{block, child, config, guard};

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
