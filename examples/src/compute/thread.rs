//! The node's own thread: reads and counts while the session waits for commands.

use std::io;

use fencing::{AdmitError, Fence, Token};
use tokio::sync::mpsc::error::TryRecvError;
use tokio::sync::{mpsc, watch};

use super::counter::{Counter, refuse};
use crate::wire::{Command, Progress, Reply};

/// What the thread is told.
#[derive(Debug)]
pub(super) enum Order {
    /// A command, and where its answer goes: to the session that brought it, or nowhere
    /// once that session is over.
    Do {
        term: u64,
        command: Command,
        reply: mpsc::Sender<Reply>,
    },
    /// The session is over: stop reading.
    Stop,
}

/// What admits the commands of a worker that shares its folder with others.
#[derive(Clone, Debug)]
pub(super) struct Mark {
    pub(super) fence: Fence,
    pub(super) scope: String,
}

impl Mark {
    /// Carries out a command of `term` under its admission, or refuses.
    fn admit(&self, term: u64, carry_out: impl FnOnce() -> Reply) -> Result<Reply, AdmitError> {
        let token = Token::scoped(&self.scope, term);
        // Held until the effect is in place: the file is renamed and synced.
        let _admission = self.fence.admit_blocking(token)?;
        Ok(carry_out())
    }
}

/// Starts the thread; it ends when every sender of its orders is gone.
pub(super) fn spawn(
    mut counter: Counter,
    mut orders: mpsc::Receiver<Order>,
    mark: Option<Mark>,
) -> io::Result<watch::Receiver<Progress>> {
    let (progress, seen) = watch::channel(counter.progress());
    std::thread::Builder::new()
        .name("compute".to_owned())
        .spawn(move || {
            while let Some(next) = next(&counter, &mut orders) {
                match next {
                    Next::Read => counter.step(),
                    Next::Order(Order::Stop) => counter.stop(),
                    Next::Order(Order::Do {
                        term,
                        command,
                        reply,
                    }) => {
                        let answer = answer(&mut counter, mark.as_ref(), term, command);
                        // Fails only where the session is over; then nobody wants the answer.
                        let _ = reply.blocking_send(answer);
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

fn answer(counter: &mut Counter, mark: Option<&Mark>, term: u64, command: Command) -> Reply {
    let Some(mark) = mark else {
        return counter.command(command);
    };
    let epoch = command.epoch;
    if epoch.is_some_and(|epoch| epoch.term != term) {
        return refuse(epoch, "the epoch is of another term than the session");
    }
    mark.admit(term, || counter.command(command))
        .unwrap_or_else(|refused| refuse(epoch, &format!("its fence refuses: {refused}")))
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
