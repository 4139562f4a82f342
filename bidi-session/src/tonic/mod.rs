//! Sessions over gRPC: the pool's [`Tonic`] connector and the worker's [`Acceptor`].

mod acceptor;
mod connector;
mod dial;
mod failure;
mod goodbye;
mod kill;
mod link;
mod metadata;
mod pings;
#[cfg(feature = "test-util")]
mod proxy;
mod resolver;
mod session;

use std::time::Duration;

pub use acceptor::Acceptor;
pub use connector::Tonic;
#[cfg(feature = "test-util")]
#[cfg_attr(docsrs, doc(cfg(feature = "test-util")))]
pub use proxy::{FaultProxy, Flow, ProxyCounts, Way, WayCounts};
pub use session::{Session, SessionOver, SessionSender, SessionStream, TrySendError};

/// How often a silent connection is pinged; give it to the worker's server as well.
pub const KEEPALIVE_INTERVAL: Duration = Duration::from_secs(5);

/// How long a ping may stay unanswered before the connection is dead.
pub const KEEPALIVE_TIMEOUT: Duration = Duration::from_secs(5);
