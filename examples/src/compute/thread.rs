//! The node's own thread: reads and counts while the session waits for commands.

use std::io;

use tokio::sync::mpsc::error::TryRecvError;
use tokio::sync::{mpsc, watch};

use super::counter::Counter;
use crate::wire::{Command, Progress, Reply};

/// A command, and where its answer goes: to the session that brought it, or nowhere
/// once that session is over.
#[derive(Debug)]
pub(super) struct Order {
    pub(super) command: Command,
    pub(super) reply: mpsc::Sender<Reply>,
}

/// Starts the thread; it ends when every sender of its orders is gone.
pub(super) fn spawn(
    mut counter: Counter,
    mut orders: mpsc::Receiver<Order>,
) -> io::Result<watch::Receiver<Progress>> {
    let (progress, seen) = watch::channel(counter.progress());
    std::thread::Builder::new()
        .name("compute".to_owned())
        .spawn(move || {
            while let Some(next) = next(&counter, &mut orders) {
                match next {
                    Next::Read => counter.step(),
                    Next::Order(order) => {
                        let reply = counter.command(order.command);
                        // Fails only where the session is over; then nobody wants the answer.
                        let _ = order.reply.blocking_send(reply);
                    }
                }
                let now = counter.progress();
                progress.send_if_modified(|before| {
                    let is_new = *before != now;
                    *before = now;
                    is_new
                });
            }
        })?;
    Ok(seen)
}

enum Next {
    Read,
    Order(Order),
}

fn next(counter: &Counter, orders: &mut mpsc::Receiver<Order>) -> Option<Next> {
    if !counter.has_work() {
        return orders.blocking_recv().map(Next::Order);
    }
    match orders.try_recv() {
        Ok(order) => Some(Next::Order(order)),
        Err(TryRecvError::Empty) => Some(Next::Read),
        Err(TryRecvError::Disconnected) => None,
    }
}
