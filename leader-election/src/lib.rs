//! Leader election behind one object-safe async trait.
//!
//! A candidate [campaigns](Election::campaign) and gets a [`Leadership`]: a
//! fencing token that only rises, a deadline on the suspend-aware clock by
//! which its work must have stopped, and a future that resolves when it is
//! lost. The deadline counts from when a request was *sent*, so it is always
//! before the store can give the lease to someone else.
//!
//! One driver serves every backend over the small [`Store`] seam;
//! [`MemoryElection`] is the embedded one.
//!
//! The page [`guide`](mod@guide) has concepts, recipes, pitfalls, how to test your own code,
//! and what drop does.
//!
//! # Examples
//!
//! ```
//! # async fn nightly_job(_term: u64) {}
//! # #[tokio::main(flavor = "current_thread")]
//! # async fn main() -> Result<(), leader_election::Error> {
//! use leader_election::{Election, ElectionConfig, MemoryElection};
//!
//! let election = MemoryElection::new(ElectionConfig::default(), 1);
//! loop {
//!     let leadership = election.campaign(b"node-1").await?;
//!     tokio::select! {
//!         () = nightly_job(leadership.token()) => { leadership.resign().await; return Ok(()) }
//!         why = leadership.lost() => eprintln!("no longer leading: {why}"),
//!     }
//! }
//! # }
//! ```
#![cfg_attr(docsrs, feature(doc_cfg))]
#![warn(missing_docs, clippy::exhaustive_enums, clippy::exhaustive_structs)]

#[cfg(any(doc, doctest))]
#[doc = include_str!("../docs/guide.md")]
pub mod guide {}

mod backoff;
mod candidacy;
mod clock;
mod config;
mod driver;
mod election;
mod error;
mod leadership;
mod measures;
mod memory;
mod outcome;
mod store;

#[cfg(feature = "conformance")]
#[cfg_attr(docsrs, doc(cfg(feature = "conformance")))]
pub mod conformance;
#[cfg(feature = "etcd")]
#[cfg_attr(docsrs, doc(cfg(feature = "etcd")))]
pub mod etcd;

pub use clock::boot_time;
#[cfg(feature = "test-util")]
pub use clock::simulated_time;
pub use config::{ElectionConfig, RenewWhile};
pub use driver::StoreElection;
pub use election::{Election, Leader};
pub use error::{Error, ErrorKind};
pub use leadership::Leadership;
pub use memory::{MemoryElection, MemoryStore};
pub use outcome::{Loss, Resigned};
pub use store::{CandidateId, Grant, MAX_VALUE_BYTES, Place, Renewal, Standing, Store};

#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;
