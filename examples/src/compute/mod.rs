//! A compute node: counts its shards, and snapshots the counts at each barrier.
//!
//! [`Node`] is the gRPC service and its session; `counter` holds what a node
//! knows, without I/O of its own but the files; `thread` runs the counter beside
//! the session; `snapshot` writes a delta file; `snapshots` removes them for a leader.

#[cfg(feature = "controls")]
mod any_term;
mod counter;
mod node;
mod serve;
mod snapshot;
mod snapshots;
mod thread;

#[cfg(feature = "controls")]
pub use any_term::AnyTerm;
pub use counter::Counter;
pub use node::Node;
pub use serve::serve;
