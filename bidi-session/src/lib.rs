//! Resilient bidirectional-stream sessions keyed by worker id.
//!
//! A [`Pool`] keeps one session with each worker that was inserted, until it is
//! removed. What happens comes out of [`Events`]; a [`Round`] sends one message to each
//! of several workers and collects their answers. Module `tonic` has both ends over
//! gRPC, module `memory` both ends within a test; other transports implement
//! [`Connector`].
//!
//! Three numbers keep what is old from what is new. The *term* is the controller's, for
//! as long as it leads: a pool is born with one, and workers refuse a lower one than
//! they have seen. The *generation* counts the streams of a pool: each session has its
//! own. The *incarnation* is the worker's, for one life of its process.
//!
//! The page [`guide`](mod@guide) has concepts, recipes, pitfalls, how to test your own code,
//! and what drop does. The README lists the features; the names of the metrics are in
//! `docs/metrics.md`.
#![cfg_attr(docsrs, feature(doc_cfg))]
#![warn(missing_docs, clippy::exhaustive_enums, clippy::exhaustive_structs)]

#[cfg(any(doc, all(doctest, feature = "tonic", feature = "test-util")))]
#[doc = include_str!("../docs/guide.md")]
pub mod guide {}

mod clock;
mod config;
mod connector;
mod core;
mod error;
mod event;
#[cfg(any(feature = "tonic", feature = "test-util"))]
mod handshake;
mod meters;
mod outbox;
mod policy;
mod pool;
mod state;
mod worker;

#[cfg(any(feature = "tonic", feature = "test-util"))]
mod acceptor;
#[cfg(feature = "test-util")]
#[cfg_attr(docsrs, doc(cfg(feature = "test-util")))]
pub mod memory;
#[cfg(feature = "tonic")]
#[cfg_attr(docsrs, doc(cfg(feature = "tonic")))]
pub mod tonic;

pub use config::{DialLimit, PoolConfig};
pub use connector::{
    Attempt, Connector, Direction, Failure, FailureKind, OpenClass, OpenError, Opened,
};
pub use error::{ConfigError, InjectError, NotReady, RoundError, SendError, SendErrorKind};
pub use event::{Counters, DisconnectReason, Event, EventKind};
pub use outbox::Outbox;
pub use policy::BackoffPolicy;
pub use pool::{Events, Pool, Round};
pub use state::{Phase, WorkerState};
pub use worker::WorkerId;

#[cfg(all(doctest, feature = "tonic"))]
#[doc = include_str!("../README.md")]
struct Readme;
