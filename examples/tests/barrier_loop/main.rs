//! The barrier loop as a whole, each file hunting one kind of failure.
//!
//! One program, since each further one would be linked with the whole of gRPC.
#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

mod deposed_leader;
mod full_pipe;
mod kills;
mod large_input;
mod late_worker;
mod restart;
mod stale_cleaner;
mod stray_answers;
mod support;
mod wrong_input;
