//! Hunts changes that no operator sees, and alarms about what is no trouble.

#[path = "../support/lines.rs"]
mod lines;
mod logs;
#[cfg(feature = "metrics")]
mod measures;
#[path = "../support/mod.rs"]
mod support;
