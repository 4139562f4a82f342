//! The thread that saves marks and wakes callers whose patience ends.
//!
//! It exists only while there is something to save or somebody waits, and never
//! two at a time. Files block, and waiting needs a timer: on a thread of its own
//! both work under any async runtime and under none.

use std::io;
use std::sync::Arc;
use std::sync::MutexGuard;
use std::sync::PoisonError;
use std::thread;

use crate::clock::boot_time;
use crate::fence::desk::{Board, Desk};
use crate::fence::error::StorageError;
use crate::fence::mark::Mark;

/// At most 15 bytes, which is what Linux shows of it.
const NAME: &str = "fence-worker";

/// Starts the worker. The caller holds the board's lock and notes that there is one.
pub(super) fn spawn(desk: Arc<Desk>) -> io::Result<()> {
    // Not joined: it ends by itself, and a fence that is dropped during a write must
    // not wait for the disk. The file stays locked until the write ends.
    thread::Builder::new()
        .name(NAME.to_owned())
        .spawn(move || work(&desk))
        .map(drop)
}

fn work(desk: &Desk) {
    let mut board = desk.lock();
    loop {
        if board.is_closed {
            board.has_worker = false;
            return;
        }
        if let Some(mark) = board.state.begin_save() {
            board = save(desk, board, &mark);
            continue;
        }
        let Some(&alarm) = board.alarms.first() else {
            board.has_worker = false;
            return;
        };
        let patience = alarm.0.saturating_sub(boot_time());
        if patience.is_zero() {
            board.alarms.remove(&alarm);
            drop(board);
            desk.changed.notify_waiters();
            board = desk.lock();
        } else {
            let woken = desk.bell.wait_timeout(board, patience);
            board = woken.unwrap_or_else(PoisonError::into_inner).0;
        }
    }
}

/// Saves without the lock, so that callers learn in the meantime what they can.
fn save<'a>(
    desk: &'a Desk,
    mut board: MutexGuard<'a, Board>,
    mark: &Mark,
) -> MutexGuard<'a, Board> {
    let store = board.store.take();
    drop(board);
    let saved = match &store {
        Some(store) => store.save(mark),
        None => Err(io::Error::other("the fence is closed")),
    };
    let mut board = desk.lock();
    board.state.end_save(saved.map_err(StorageError::new));
    // Back before anybody hears of the outcome: who drops the fence then finds the
    // store here and unlocks it at once. Kept until the end of this function else.
    let store = match board.is_closed {
        true => store,
        false => {
            board.store = store;
            None
        }
    };
    drop(board);
    drop(store);
    desk.changed.notify_waiters();
    desk.lock()
}
