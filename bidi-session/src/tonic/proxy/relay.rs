//! One connection through a proxy: two ways, each with its own queue and fault.

use std::collections::VecDeque;
use std::future::{pending, poll_fn};
use std::io;
use std::net::SocketAddr;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use tokio::io::AsyncWrite;
use tokio::net::tcp::{ReadHalf, WriteHalf};
use tokio::net::{TcpSocket, TcpStream};
use tokio::sync::watch;

use super::tally::Tally;
use super::{Flow, Plan, Way};
use crate::clock::Clock;

/// Bytes that wait in one connection and way, about.
const MAX_HELD: usize = 1024 * 1024;

/// Bytes read at once.
const CHUNK: usize = 16 * 1024;

/// One connection.
pub(super) struct Relay {
    plan: watch::Receiver<Plan>,
    tally: Arc<Tally>,
    // The number of resets under which it began.
    began: u64,
    // Bytes were lost on the way to the target, and on the way back.
    gaps: [AtomicBool; 2],
}

/// One way of a connection.
struct Pump<'a> {
    relay: &'a Relay,
    plan: watch::Receiver<Plan>,
    clock: Clock,
    way: Way,
    from: ReadHalf<'a>,
    to: WriteHalf<'a>,
    /// What was read, with the time at which it is due.
    queue: VecDeque<(Duration, Vec<u8>)>,
    /// Bytes of the first chunk that are out already.
    sent: usize,
    held: usize,
    is_ended: bool,
}

/// The connection is to be reset.
struct Broken;

// ===== impl Relay =====

impl Relay {
    pub(super) fn new(mut plan: watch::Receiver<Plan>, tally: Arc<Tally>) -> Self {
        let began = plan.borrow_and_update().resets;
        Self {
            plan,
            tally,
            began,
            gaps: Default::default(),
        }
    }

    pub(super) async fn run(self, mut near: TcpStream) {
        let far = tokio::select! {
            biased;
            () = self.over() => None,
            far = self.reach() => far,
        };
        let Some(mut far) = far else {
            self.reset(&[&near]);
            return;
        };
        // Delays are the test's to make.
        let _ = (near.set_nodelay(true), far.set_nodelay(true));
        let (near_read, near_write) = near.split();
        let (far_read, far_write) = far.split();
        let to_target = Pump::new(&self, Way::ToTarget, near_read, far_write);
        let to_client = Pump::new(&self, Way::ToClient, far_read, near_write);
        let ended = tokio::select! {
            biased;
            () = self.over() => Err(Broken),
            ended = async { tokio::try_join!(to_target.run(), to_client.run()) } => ended.map(drop),
        };
        if ended.is_err() {
            self.reset(&[&near, &far]);
        }
    }

    /// Connects to the target; fails when whoever connected is to hear of it.
    async fn reach(&self) -> Option<TcpStream> {
        let target = self.plan.borrow().target;
        let far = connect(target).await;
        if far.is_err() {
            self.tally.count_unreached();
            if !self.tells(Way::ToClient) {
                pending::<()>().await;
            }
        }
        far.ok()
    }

    /// Resolves when this connection is to be reset.
    async fn over(&self) {
        let mut plan = self.plan.clone();
        let over = plan.wait_for(|plan| plan.resets > self.began);
        if over.await.is_err() {
            // The proxy is gone, and this task with it.
            pending::<()>().await;
        }
    }

    /// Returns what becomes of bytes now.
    fn flow(&self, way: Way) -> Flow {
        let flow = self.plan.borrow().flow(way);
        if flow != Flow::Stall && self.gap(way).load(Ordering::Relaxed) {
            return Flow::Swallow;
        }
        flow
    }

    /// Says whether news on this way gets through, now or later.
    fn tells(&self, way: Way) -> bool {
        !matches!(self.flow(way), Flow::Swallow | Flow::Stall)
    }

    fn set_gap(&self, way: Way) {
        self.gap(way).store(true, Ordering::Relaxed);
    }

    fn gap(&self, way: Way) -> &AtomicBool {
        match way {
            Way::ToTarget => &self.gaps[0],
            Way::ToClient => &self.gaps[1],
        }
    }

    fn reset(&self, sides: &[&TcpStream]) {
        for side in sides {
            // A socket that is broken already needs no reset.
            let _ = set_abortive(side, true);
        }
        self.tally.count_reset();
    }
}

// ===== impl Pump =====

impl<'a> Pump<'a> {
    fn new(relay: &'a Relay, way: Way, from: ReadHalf<'a>, to: WriteHalf<'a>) -> Self {
        Self {
            relay,
            plan: relay.plan.clone(),
            clock: Clock::start(),
            way,
            from,
            to,
            queue: VecDeque::new(),
            sent: 0,
            held: 0,
            is_ended: false,
        }
    }

    /// Carries bytes until the sender's end has been passed on, or can never be.
    async fn run(mut self) -> Result<(), Broken> {
        loop {
            tokio::task::coop::consume_budget().await;
            self.plan.mark_unchanged();
            let flow = self.relay.flow(self.way);
            if flow == Flow::Swallow {
                self.swallow();
                if self.is_ended {
                    self.relay.set_gap(self.way);
                    return Ok(());
                }
            }
            let can_pass = matches!(flow, Flow::Pass | Flow::Delay(_));
            if can_pass && self.is_ended && self.queue.is_empty() {
                // A receiver that is gone needs no end.
                let _ = poll_fn(|cx| Pin::new(&mut self.to).poll_shutdown(cx)).await;
                return Ok(());
            }
            let limit = if flow == Flow::Pass { CHUNK } else { MAX_HELD };
            let can_read = flow != Flow::Stall && !self.is_ended && self.held < limit;
            let due = self.queue.front().map(|(due, _)| *due);
            let is_due = due.is_some_and(|due| due <= self.clock.now());
            tokio::select! {
                biased;
                changed = self.plan.changed() => if changed.is_err() {
                    return Ok(());
                },
                _ = self.to.writable(), if can_pass && is_due => self.write()?,
                _ = self.from.readable(), if can_read => self.read()?,
                () = self.clock.sleep_until(due.unwrap_or_default()),
                    if can_pass && due.is_some() && !is_due => {}
            }
        }
    }

    fn read(&mut self) -> Result<(), Broken> {
        let mut chunk = vec![0; CHUNK];
        match self.from.try_read(&mut chunk) {
            Ok(0) => self.is_ended = true,
            Ok(read) => {
                chunk.truncate(read);
                self.held += read;
                self.relay.tally.way(self.way).read(read);
                let now = self.clock.now();
                // Looked at again: the way may have changed while this was read.
                let due = match self.relay.flow(self.way) {
                    Flow::Delay(delay) => now.saturating_add(delay),
                    _ => now,
                };
                self.queue.push_back((due, chunk));
            }
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
            Err(_) if self.relay.tells(self.way) => return Err(Broken),
            Err(_) => {
                self.is_ended = true;
                self.relay.set_gap(self.way);
            }
        }
        Ok(())
    }

    fn write(&mut self) -> Result<(), Broken> {
        let Some((_, chunk)) = self.queue.front() else {
            return Ok(());
        };
        match self.to.try_write(&chunk[self.sent..]) {
            Ok(written) => {
                self.sent += written;
                self.held -= written;
                self.relay.tally.way(self.way).passed(written);
                if self.sent == chunk.len() {
                    self.queue.pop_front();
                    self.sent = 0;
                }
            }
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
            Err(_) if self.relay.tells(self.way.back()) => return Err(Broken),
            Err(_) => self.relay.set_gap(self.way),
        }
        Ok(())
    }

    fn swallow(&mut self) {
        if self.held > 0 {
            self.relay.tally.way(self.way).swallowed(self.held);
            self.relay.set_gap(self.way);
        }
        self.queue.clear();
        self.held = 0;
        self.sent = 0;
    }
}

impl Drop for Pump<'_> {
    fn drop(&mut self) {
        // What was held is lost with its connection.
        self.relay.tally.way(self.way).swallowed(self.held);
    }
}

/// Connects; given up before it has, the target sees a reset and no end.
#[allow(deprecated, reason = "see `set_abortive`")]
async fn connect(target: SocketAddr) -> io::Result<TcpStream> {
    let socket = match target {
        SocketAddr::V4(_) => TcpSocket::new_v4()?,
        SocketAddr::V6(_) => TcpSocket::new_v6()?,
    };
    socket.set_linger(Some(Duration::ZERO))?;
    let stream = socket.connect(target).await?;
    set_abortive(&stream, false)?;
    Ok(stream)
}

/// Says whether closing this socket resets its connection.
#[allow(
    deprecated,
    reason = "its successor is newer than the oldest tokio that works; zero never blocks"
)]
fn set_abortive(socket: &TcpStream, is_abortive: bool) -> io::Result<()> {
    socket.set_linger(is_abortive.then_some(Duration::ZERO))
}
