//! The whole pattern in one process: two candidates, the workers, and real gRPC between them.
//!
//! | part | file |
//! | --- | --- |
//! | checks the input and opens the output folder | `setup` |
//! | starts, kills and restarts workers | `workers` |
//! | starts the candidates and waits for the end of the chain | `leaders` |
//! | when somebody is killed on request | `faults` |
//! | the killed leader, which tries to commit all the same | `ghost` |
//! | cleans up, merges the totals and compares them | `finish` |

mod faults;
mod finish;
mod ghost;
mod leaders;
mod setup;
mod workers;

pub use finish::finish;
pub use leaders::{Outcome, run};
pub use setup::{Setup, SetupError};
pub use workers::Workers;
