//! Resilient bidirectional-stream sessions keyed by worker id.
#![cfg_attr(docsrs, feature(doc_cfg))]
#![warn(missing_docs, clippy::exhaustive_enums, clippy::exhaustive_structs)]

mod clock;
mod config;
mod connector;
mod core;
mod error;
mod event;
#[cfg(feature = "tonic")]
mod handshake;
mod outbox;
mod pool;
mod worker;

#[cfg(feature = "tonic")]
mod acceptor;
#[cfg(feature = "tonic")]
pub mod tonic;

pub use config::{DialLimit, PoolConfig};
pub use connector::{Attempt, Connector, Failure, OpenClass, OpenError, Opened};
pub use error::{ConfigError, InjectError, NotReady, RoundError, SendError, SendErrorKind};
pub use event::{Counters, DisconnectReason, Event, EventKind};
pub use outbox::Outbox;
pub use pool::{Events, Phase, Pool, Round, WorkerState};
pub use worker::WorkerId;
