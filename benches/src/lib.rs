//! Measurements of the three crates beside what a user would write by hand.
//!
//! A [`Fleet`] is one way to talk to many workers: the pool, hand-written streams, queues
//! in memory. Each measurement is written once and run with each of them, against workers
//! in a process of their own: the measuring program runs itself again as the server.

mod bare;
#[cfg(feature = "etcd")]
mod election;
mod fleet;
mod floor;
mod keeper;
mod machine;
mod measure;
mod pooled;
mod raw;
mod server;
mod stats;
mod unary;
mod wire;

pub use bare::Bare;
#[cfg(feature = "etcd")]
pub use election::{Cycle, ElectionCall, Etcd, Ours, RawCalls, TwoTxns, candidate};
pub use fleet::{Courier, Fleet, OUTBOX_LEN, Rounds, barrier, count, echo, endpoint, mark};
pub use floor::Floor;
pub use keeper::{Change, Keeper, Loops};
pub use machine::{
    Affinity, Flavor, cpu_time, load, pin, print_head, raise_file_limit, resident_bytes, unpin,
};
pub use measure::{Sample, ping_pong, rounds, streaming};
pub use pooled::{Connect, Pooled, PooledCourier, connect};
pub use raw::{Raw, RawCourier};
pub use server::{Plan, Server, Service, serve_if_asked};
pub use stats::{Ratio, median, percentile};
pub use unary::Unary;
pub use wire::{Command, Reply};
