//! A relay between a pool and a worker whose faults a test controls.

mod door;
mod relay;
mod tally;
#[cfg(test)]
mod tests;

use std::fmt;
use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use tokio::sync::watch;
use tokio::task::JoinSet;

use door::Door;
use relay::Relay;
use tally::Tally;

pub use tally::{ProxyCounts, WayCounts};

/// A TCP relay on a free port of 127.0.0.1 whose faults a test controls.
///
/// It knows nothing of what it carries. Faults hold for the connections that there are
/// and for later ones, until they are changed; [`reset`](Self::reset) is a moment's. The
/// [`counts`](Self::counts) prove that a fault was met: a test that does not look at
/// them may pass because nothing happened.
///
/// News travels the way that bytes do: an end or a reset of one side reaches the other
/// only where the way between them passes. Dropping the proxy closes all connections.
///
/// # Examples
///
/// ```
/// use bidi_session::tonic::{FaultProxy, Flow, Way};
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> std::io::Result<()> {
/// # let worker = std::net::TcpListener::bind("127.0.0.1:0")?.local_addr()?;
/// let proxy = FaultProxy::start(worker)?;
/// let target = format!("http://{}", proxy.address()); // give this to `Pool::insert`
/// proxy.set(Way::ToClient, Flow::Swallow);            // answers vanish without a word
/// // the pool finds the worker dead
/// assert_eq!(proxy.counts().to_client.swallowed, 0);  // in a test: above zero
/// # let _ = target;
/// # Ok(())
/// # }
/// ```
pub struct FaultProxy {
    address: SocketAddr,
    door: Arc<Door>,
    plan: watch::Sender<Plan>,
    tally: Arc<Tally>,
    // Ends with the proxy, and the connections with it.
    _accepting: JoinSet<()>,
}

/// One of the two ways through a proxy.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Way {
    /// From whoever connected to the target: from the pool to the worker.
    ToTarget,
    /// From the target to whoever connected: from the worker to the pool.
    ToClient,
}

/// What becomes of the bytes on one way.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Flow {
    /// They are passed on.
    #[default]
    Pass,
    /// They are passed on, in order, that long after they came.
    Delay(Duration),
    /// They are read and kept, at most 1 MiB a connection, until the way passes again.
    Hold,
    /// They are read and dropped.
    ///
    /// A connection that has lost bytes never carries any on that way again: a network
    /// delivers nothing beyond a gap.
    Swallow,
    /// Nothing is read, so that the sender's buffers fill.
    Stall,
}

/// What all connections go by.
#[derive(Clone, Copy, Debug)]
struct Plan {
    target: SocketAddr,
    to_target: Flow,
    to_client: Flow,
    // Connections that began under a lower number are over.
    resets: u64,
}

// ===== impl FaultProxy =====

impl FaultProxy {
    /// Listens on a free port and passes all on to this target.
    ///
    /// # Errors
    ///
    /// No port can be listened on.
    ///
    /// # Panics
    ///
    /// Outside of a tokio runtime.
    pub fn start(target: SocketAddr) -> io::Result<Self> {
        let door = Arc::new(Door::open()?);
        let (plan, planned) = watch::channel(Plan {
            target,
            to_target: Flow::Pass,
            to_client: Flow::Pass,
            resets: 0,
        });
        let tally = Arc::new(Tally::default());
        let mut accepting = JoinSet::new();
        accepting.spawn(accept(door.clone(), planned, tally.clone()));
        Ok(Self {
            address: door.address(),
            door,
            plan,
            tally,
            _accepting: accepting,
        })
    }

    /// Returns where it listens.
    #[must_use]
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Sets what becomes of the bytes on one way, from this call on.
    pub fn set(&self, way: Way, flow: Flow) {
        self.plan.send_modify(|plan| *plan.flow_mut(way) = flow);
    }

    /// Sets what becomes of the bytes on both ways, from this call on.
    pub fn set_both(&self, flow: Flow) {
        self.plan.send_modify(|plan| {
            plan.to_target = flow;
            plan.to_client = flow;
        });
    }

    /// Sends later connections to another target.
    pub fn set_target(&self, target: SocketAddr) {
        self.plan.send_modify(|plan| plan.target = target);
    }

    /// Resets all present connections, on both sides.
    pub fn reset(&self) {
        self.plan.send_modify(|plan| plan.resets += 1);
    }

    /// Says whether new connections are refused, as by a port on which nobody listens.
    ///
    /// The port stays this proxy's; present connections go on.
    ///
    /// # Errors
    ///
    /// The port cannot be listened on again.
    ///
    /// # Panics
    ///
    /// Outside of a tokio runtime.
    pub fn set_refusing(&self, is_refusing: bool) -> io::Result<()> {
        self.door.set_shut(is_refusing)
    }

    /// Returns what has happened so far.
    #[must_use]
    pub fn counts(&self) -> ProxyCounts {
        self.tally.counts()
    }
}

impl fmt::Debug for FaultProxy {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("FaultProxy")
            .field("address", &self.address)
            .field("plan", &*self.plan.borrow())
            .finish_non_exhaustive()
    }
}

// ===== impl Way =====

impl Way {
    fn back(self) -> Self {
        match self {
            Self::ToTarget => Self::ToClient,
            Self::ToClient => Self::ToTarget,
        }
    }
}

// ===== impl Plan =====

impl Plan {
    fn flow(&self, way: Way) -> Flow {
        match way {
            Way::ToTarget => self.to_target,
            Way::ToClient => self.to_client,
        }
    }

    fn flow_mut(&mut self, way: Way) -> &mut Flow {
        match way {
            Way::ToTarget => &mut self.to_target,
            Way::ToClient => &mut self.to_client,
        }
    }
}

async fn accept(door: Arc<Door>, plan: watch::Receiver<Plan>, tally: Arc<Tally>) {
    let mut relays = JoinSet::new();
    loop {
        tokio::select! {
            near = door.next() => {
                tally.count_connection();
                relays.spawn(Relay::new(plan.clone(), tally.clone()).run(near));
            }
            Some(_) = relays.join_next() => {}
        }
    }
}
