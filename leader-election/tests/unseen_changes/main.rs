//! Hunts changes that no operator sees, and alarms about what is no trouble.

mod logs;
#[cfg(feature = "metrics")]
mod measures;
#[path = "../support/mod.rs"]
mod support;
