//! The promise of a fenced resource as a suite: run it against your own.
//!
//! Implement [`Resource`] for a client of your resource and [`Harness`] for what starts it,
//! and call [`run`]. A case panics with its name and what it has found.

mod case;
mod cases;
mod harness;

pub use case::{CASES, Case, run, run_case};
pub use harness::{Fault, FaultyClient, Harness, Resource};
