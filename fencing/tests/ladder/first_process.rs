//! The first process of a container, which the kernel's timer cannot kill.

use std::thread;

use fencing::{EXIT_CODE, Grade, Watchdog, boot_time};

use crate::{LEAD, block, child, config};

pub(crate) fn be_the_first_process() {
    assert_eq!(std::process::id(), 1);
    let watchdog = Watchdog::start(config()).unwrap();
    assert_eq!(watchdog.grade(), Grade::Handler);
    let deadline = boot_time() + LEAD;
    let guard = watchdog.guard(7, deadline).unwrap();
    child::tell_deadline(deadline);
    let _permit = guard.permit().unwrap();
    for _ in 0..4 {
        thread::spawn(|| {
            loop {
                std::hint::spin_loop();
            }
        });
    }
    block()
}

#[test]
#[cfg_attr(fencing_portable, ignore = "there is no kernel timer")]
fn the_first_process_ends_by_its_handler_or_thread() {
    // The parent of the first process passes its status on.
    let under = ["unshare", "--pid", "--fork"];
    let ended = child::start_under(&under, "be_the_first_process").wait();
    assert_eq!(ended.status.code(), Some(EXIT_CODE), "{ended:?}");
    ended.assert_fenced();
}
