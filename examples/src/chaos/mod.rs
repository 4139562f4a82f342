//! The loop under faults: each planned by a seed, each proven by a count, and a judgment
//! from etcd's history and the files.
//!
//! | what | file |
//! | --- | --- |
//! | the kinds of faults, and how soon commits must go on | `fault` |
//! | which comes when, on whom, for how long | `plan` |
//! | what was done, and the table of it | `timeline` |
//! | what must never have happened | `judge` |
//! | a network namespace for each process, and its cuts | `network` |
//! | the way to etcd, on which a commit can be late | `proxy` |
//! | everything that is started | `arena` |
//! | how each fault is made and proven | `inject` |
//! | the input that goes on | `feed` |
//! | when commits land, which files appear, when a leader must have stopped | `witness` |
//! | what leaders did, and whether it was late | `acts` |
//! | one run, in order | `run` |

mod acts;
mod arena;
mod fault;
mod feed;
mod inject;
mod judge;
mod network;
mod plan;
mod proxy;
mod run;
mod timeline;
mod witness;

pub use acts::{Act, late_acts};
pub use arena::{Arena, Setup};
pub use fault::{Kind, Limits};
pub use judge::{Addition, Evidence, LEAST_COMMITS, Told};
pub use network::{Network, Networks, Way, enter};
pub use plan::{Plan, Planned};
pub use proxy::{Proxy, Trap};
pub use run::{Orders, Outcome, run};
pub use timeline::{Proof, Record, Row, Timeline};
pub use witness::Witness;
