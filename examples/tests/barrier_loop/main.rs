//! The barrier loop as a whole, each file hunting one kind of failure.
//!
//! One program, since each further one would be linked with the whole of gRPC.
#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

mod deposed_leader;
mod full_pipe;
mod kills;
mod large_input;
mod late_answers;
mod late_worker;
#[path = "../own_hosts/mod.rs"]
mod own_hosts;
#[path = "../proxy/mod.rs"]
mod proxy;
mod restart;
mod slow_worker;
mod stale_cleaner;
mod stale_recipe;
mod stopped_process;
mod stray_answers;
mod support;
mod two_leaders;
mod wrong_input;
