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
mod cancelled_future;
mod costly_thousands;
mod crossed_message;
mod disordered_events;
mod grammar;
mod half_round;
mod hostile_owner;
mod leaked_task;
mod overlapping_takeover;
mod random_run;
mod rig;
mod slow_insert;
mod stalled_owner;
mod stubborn_door;
