//! The three crates composed into a full meta/compute barrier loop.
//!
//! [`meta`] is the control plane, [`compute`] a worker, [`store`] the resource
//! that checks tokens, [`embedded`] puts all of them into one process; with the feature
//! `etcd`, `etcd` and `cluster` make processes of them, and `chaos` breaks them.
//!
//! # The pattern, to lift into a service of one's own
//!
//! Where renewals stop, the watchdog ends this process before the lease can end: that is its
//! policy by default. What runs all candidates in one process, as [`embedded`] does, takes
//! `Policy::CancelOnly`.
//!
//! ```
//! use std::pin::pin;
//!
//! use fencing::{Guard, Watchdog, WatchdogConfig};
//! use leader_election::{Election, ElectionConfig, MemoryElection};
//! # async fn lead(_token: u64, _guard: &Guard) {}
//! # async fn shutdown_signal() { tokio::time::sleep(std::time::Duration::from_millis(50)).await }
//! # #[tokio::main]
//! # async fn main() -> Result<(), Box<dyn std::error::Error>> {
//! let watchdog = Watchdog::start(WatchdogConfig::default())?;
//! let config = ElectionConfig::default().with_reserve(watchdog.reserve()); // time to stop, kept free in every lease
//! let election = MemoryElection::new(config, 1);
//! let mut shutdown = pin!(shutdown_signal()); // SIGTERM, Ctrl-C
//! loop {
//!     let leadership = tokio::select! {
//!         won = election.campaign(b"meta-1:7070") => won?,
//!         () = &mut shutdown => break,
//!     };
//!     let guard = watchdog.guard(leadership.token(), leadership.deadline())?;
//!     let renewed = guard.clone();
//!     leadership.follow(move |deadline| renewed.extend(deadline)); // renewal or loss: the same call
//!     let stop = tokio::select! {
//!         ended = guard.run(lead(leadership.token(), &guard)) => { tracing::warn!(?ended, "stopped leading"); false }
//!         () = &mut shutdown => true,
//!     };
//!     guard.finish().await; // no permit is held from here on
//!     leadership.resign().await; // the next one may start at once
//!     if stop { break }
//! }
//! # Ok(())
//! # }
//! ```
//!
//! Inside `lead`: a new pool for the term, `insert` every worker, `ready` those
//! that hold shards, `inject`, `collect`, `guard.permit()`, commit; see [`meta`].

#[cfg(feature = "etcd")]
pub mod chaos;
pub mod cli;
#[cfg(feature = "etcd")]
pub mod cluster;
pub mod compute;
pub mod controls;
pub mod count;
pub mod embedded;
#[cfg(feature = "etcd")]
pub mod etcd;
pub mod input;
pub mod journal;
pub mod lease;
pub mod memory;
pub mod meta;
pub mod process;
pub mod report;
pub mod requests;
pub mod roster;
pub mod status;
pub mod store;
pub mod totals;
pub mod wire;
