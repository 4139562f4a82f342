//! The recipes against real resources: the suite, two writers that both believe to lead,
//! and rebuilt stores.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

mod broken;
mod child;
mod conformance;
mod crashed_step;
mod lost_put;
mod proxy;
mod rebuilt_store;
mod remote;
mod resources;
mod servers;
mod two_writers;
