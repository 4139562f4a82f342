//! Hunts requests of a former holder that have an effect, or harm, all the same.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

#[cfg(target_os = "linux")]
mod crashed_raise;
#[cfg(all(feature = "tonic", feature = "test-util"))]
mod cut_stream;
#[cfg(feature = "tonic")]
mod grpc_call;
#[cfg(feature = "tower")]
mod held_answer;
#[cfg(all(feature = "tower", feature = "test-util"))]
mod holder;
mod joined_raise;
#[cfg(all(feature = "tower", feature = "test-util"))]
mod late_request;
#[cfg(feature = "tonic")]
mod orders;
mod panicking_waker;
mod racing_gate;
#[cfg(all(feature = "tower", feature = "test-util"))]
mod repeated_request;
#[path = "../support/mod.rs"]
mod support;
#[cfg(target_os = "linux")]
mod troubled_storage;
#[cfg(feature = "tower")]
mod wrong_header;
