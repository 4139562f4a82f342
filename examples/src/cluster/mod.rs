//! A whole loop of processes on one machine: etcd, candidates, workers.
//!
//! | what | file |
//! | --- | --- |
//! | one child process, which dies with this one | `process` |
//! | an etcd of its own | `etcd_server` |
//! | starts all of them, keeps them running, and ends them | `fleet` |
//! | what is shown meanwhile | `view` |
//! | whether the result is right, from etcd's history and the files | `verdict` |

mod etcd_server;
mod fleet;
mod process;
mod verdict;
mod view;

pub use etcd_server::EtcdServer;
pub use fleet::{Fleet, Plan};
pub use process::{Process, Program};
pub use verdict::Verdict;
pub use view::View;
