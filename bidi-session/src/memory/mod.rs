//! Sessions within one process, over a network with faults, for tests.
//!
//! A test runs its own controller and its own workers' handlers against each other,
//! without a socket, and under paused time in no time at all. It breaks what it likes:
//!
//! ```
//! use std::time::Duration;
//! use bidi_session::memory::{Acceptor, Network, Session};
//! use bidi_session::{Pool, PoolConfig, RoundError};
//!
//! const MINUTE: Duration = Duration::from_secs(60);
//!
//! /// The worker's handler, which answers each barrier with its epoch.
//! async fn work(mut session: Session<u64, u64>) {
//!     while let Some(epoch) = session.recv().await {
//!         if session.send(epoch).await.is_err() { break }
//!     }
//! }
//!
//! # #[tokio::main(flavor = "current_thread", start_paused = true)]
//! # async fn main() -> Result<(), Box<dyn std::error::Error>> {
//! let network = Network::new(7);                              // the seed of all that is random
//! let workers: Vec<String> = (0..10).map(|number| format!("w{number}")).collect();
//! for worker in &workers {
//!     network.serve(worker, Acceptor::new(worker.as_str(), 1, 0), work);
//! }
//! let connect = network.connector::<u64, u64>().with_answers(|epoch| Some(*epoch));
//! let (pool, _events) = Pool::new(connect, PoolConfig::new(1));
//! for worker in &workers {
//!     pool.insert(worker.as_str(), worker.clone());            // its address is its name here
//! }
//! pool.ready(&workers, MINUTE).await?;
//! pool.inject(1, &workers, |_| 1)?.collect(MINUTE).await?;
//!
//! network.cut("w3");                                          // no error anywhere: packets vanish
//! let round = pool.inject(2, &workers, |_| 2)?.collect(MINUTE).await;
//! assert!(matches!(round, Err(RoundError::Failed { .. })));   // found by keepalive
//! network.heal("w3");
//! pool.ready(&workers, MINUTE).await?;
//! pool.inject(3, &workers, |_| 3)?.collect(MINUTE).await?;
//!
//! let counts = network.counts("w3");                          // the fault did strike
//! assert!(counts.silent_ends > 0 && counts.messages_lost == 1);
//! # Ok(())
//! # }
//! ```
//!
//! A connection behaves as one over gRPC does: messages arrive in order and without a
//! gap, or the session ends; a worker is admitted by the same [`Acceptor`]; a peer that
//! is gone without a word is found by keepalive, 5 s + 5 s. What differs: messages are
//! not encoded, there is no window but the outbox, names are not looked up, and work
//! that a handler has spawned by itself survives [`Network::kill`].
//!
//! The same seed gives the same run on a runtime of one thread with paused time, where
//! pools have a seed too.

mod connector;
mod counts;
mod lane;
mod line;
mod network;
mod server;
mod wire;

pub use self::connector::Memory;
pub use self::counts::FaultCounts;
pub use self::network::Network;
pub use crate::acceptor::{Acceptor, Session, SessionOver, SessionSender, TrySendError};
