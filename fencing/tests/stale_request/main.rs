//! Hunts requests of a former holder that have an effect, or harm, all the same.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

#[cfg(target_os = "linux")]
mod crashed_raise;
mod joined_raise;
mod racing_gate;
#[path = "../support/mod.rs"]
mod support;
