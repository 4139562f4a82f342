//! One way to talk to many workers, and the messages that are sent.

use std::net::SocketAddr;
use std::time::Duration;

use bidi_session::tonic::{KEEPALIVE_INTERVAL, KEEPALIVE_TIMEOUT};
use tonic::transport::Endpoint;

use crate::wire::{Command, Reply};

/// Messages that wait for one worker, at most, in every fleet: the pool's default.
pub const OUTBOX_LEN: usize = 256;

/// Flow-control windows of every connection, both sides: of a stream, of a connection.
pub(crate) const WINDOWS: (u32, u32) = (1024 * 1024, 2 * 1024 * 1024);

/// One way to run barrier rounds.
pub trait Rounds: Send + 'static {
    /// Sends a barrier to all workers and waits for the answer of each.
    fn round(&mut self, epoch: u64, size: usize) -> impl Future<Output = ()> + Send;
}

/// One way to talk to many workers.
pub trait Fleet: Rounds {
    /// Sends to one worker.
    type Courier: Courier;

    /// Returns a sender to the worker of this number.
    fn courier(&self, worker: usize) -> Self::Courier;

    /// Waits for the next message of any worker.
    fn recv(&mut self) -> impl Future<Output = Reply> + Send;
}

/// Sends to one worker.
pub trait Courier: Send + 'static {
    /// Queues a message, waiting for room.
    fn send(&self, message: Command) -> impl Future<Output = ()> + Send;
}

/// Returns a message of `size` bytes that the worker gives back as it is.
#[must_use]
pub fn echo(size: usize) -> Command {
    command(0, b'e', size)
}

/// Returns a message of `size` bytes that the worker takes in silence.
#[must_use]
pub fn count(size: usize) -> Command {
    command(0, b'c', size)
}

/// Returns a message that the worker answers with how many it has counted.
#[must_use]
pub fn mark() -> Command {
    command(0, b'm', 1)
}

/// Returns a barrier of `size` bytes.
#[must_use]
pub fn barrier(epoch: u64, size: usize) -> Command {
    command(epoch, b'e', size)
}

fn command(epoch: u64, word: u8, size: usize) -> Command {
    let mut body = vec![0; size.max(1)];
    body[0] = word;
    Command { epoch, body }
}

/// Does what a message says: the work of every worker, whatever it is reached by.
pub(crate) fn obey(command: Command, counted: &mut u64) -> Option<Reply> {
    match command.body.first() {
        Some(b'c') => {
            *counted += 1;
            None
        }
        Some(b'm') => Some(Reply {
            epoch: None,
            body: std::mem::take(counted).to_be_bytes().to_vec(),
        }),
        _ => Some(Reply {
            epoch: (command.epoch > 0).then_some(command.epoch),
            body: command.body,
        }),
    }
}

/// Returns the endpoint of a worker, with the same settings for every fleet.
#[must_use]
pub fn endpoint(address: SocketAddr) -> Endpoint {
    let endpoint = Endpoint::from_shared(format!("http://{address}")).expect("an address is a URI");
    endpoint
        .tcp_nodelay(true)
        .initial_stream_window_size(WINDOWS.0)
        .initial_connection_window_size(WINDOWS.1)
        .http2_keep_alive_interval(KEEPALIVE_INTERVAL)
        .keep_alive_timeout(KEEPALIVE_TIMEOUT)
        .keep_alive_while_idle(true)
        .connect_timeout(Duration::from_secs(10))
}
