//! Pools and workers over the memory transport: faults and random schedules in paused
//! time, and what thousands of workers cost.
//!
//! `SOAK=1` runs the long versions.
#![allow(
    clippy::unwrap_used,
    unreachable_pub,
    reason = "a failure is the test's"
)]

mod broken_line;
mod disordered_events;
mod grammar;
mod random_run;
mod rig;
