//! Pools and workers over real gRPC on loopback, one module per failure.
#![allow(
    clippy::unwrap_used,
    reason = "a failure is the test's, and says where it is"
)]

mod support;

mod crowded_stream;
mod deadlocked_streams;
mod half_open_connection;
mod leaked_connection;
mod miscounted_reply;
mod overlapping_sessions;
mod refused_stream;
mod restarted_worker;
mod unreachable_worker;
mod unresolved_name;
