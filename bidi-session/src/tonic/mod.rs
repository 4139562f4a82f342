//! Sessions over gRPC: the pool's [`Tonic`] connector and the worker's [`Acceptor`].

mod acceptor;
mod connector;
mod dial;
mod failure;
mod kill;
mod metadata;
mod pings;
mod resolver;
mod stream;

use std::time::Duration;

pub use self::connector::Tonic;
pub use self::stream::SessionStream;
pub use crate::acceptor::{Acceptor, Session, SessionOver, SessionSender, TrySendError};

/// How often a silent connection is pinged; give it to the worker's server as well.
pub const KEEPALIVE_INTERVAL: Duration = Duration::from_secs(5);

/// How long a ping may stay unanswered before the connection is dead.
pub const KEEPALIVE_TIMEOUT: Duration = Duration::from_secs(5);
