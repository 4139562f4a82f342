//! Sessions over gRPC: the pool's [`Tonic`] connector and the worker's [`Acceptor`].
//!
//! What the two say to each other is on the page [`handshake`](mod@handshake), with which
//! either end can be written in another language.
//!
//! # TLS
//!
//! The library brings no TLS of its own. Turn on `tls-ring` or `tls-aws-lc` of `tonic`, give
//! the endpoint an `https` address and `Endpoint::tls_config`, and the worker's server
//! `Server::tls_config`; the example `mtls` shows both with certificates of both ends.
//!
//! The handshake of TLS belongs to the attempt: one that fails says why, and is retried.
//! With TLS 1.3 a server refuses a client certificate, or its absence, only after the client
//! is done; then some of the attempts say merely that the connection is over.
//! An `https` endpoint without TLS is a failed attempt, never plain text. An `http`
//! endpoint is plain text, whatever its `tls_config` says: `tonic` looks at the scheme
//! alone. A worker's endpoint that is inserted again with the same address ends no session,
//! and is used from the next attempt on: so the controller's certificates are changed.

mod acceptor;
mod connector;
mod dial;
mod failure;
mod first_bytes;
mod goodbye;
mod inbound;
mod kill;
mod metadata;
mod pings;
#[cfg(feature = "test-util")]
mod proxy;
mod resolver;
mod stream;
mod verdict;

#[cfg(test)]
mod page;
#[cfg(doc)]
#[doc = include_str!("../../docs/handshake.md")]
pub mod handshake {}

use std::time::Duration;

pub use self::connector::{Handshake, Tonic};
#[cfg(feature = "test-util")]
#[cfg_attr(docsrs, doc(cfg(feature = "test-util")))]
pub use self::proxy::{FaultProxy, Flow, ProxyCounts, Way, WayCounts};
pub use self::stream::SessionStream;
pub use crate::acceptor::{Acceptor, Session, SessionOver, SessionSender, TrySendError};

/// How often a silent connection is pinged; give it to the worker's server as well.
pub const KEEPALIVE_INTERVAL: Duration = Duration::from_secs(5);

/// How long a ping may stay unanswered before the connection is dead.
pub const KEEPALIVE_TIMEOUT: Duration = Duration::from_secs(5);
