//! Resilient bidirectional-stream sessions keyed by worker id.
#![cfg_attr(docsrs, feature(doc_cfg))]
#![warn(missing_docs, clippy::exhaustive_enums, clippy::exhaustive_structs)]

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

pub use connector::{Attempt, Connector, Failure, OpenClass, OpenError, Opened};
pub use outbox::Outbox;
pub use worker::WorkerId;
