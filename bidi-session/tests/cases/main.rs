//! Cases from practice over real streams, real processes and faults that are counted.
//!
//! Each prints `CASE <id> fault=<count>`, where the count was read from the proxy, the
//! kernel or a process; a fault that was not met fails its test. `SOAK=1` runs the long
//! versions.
#![cfg(all(feature = "tonic", feature = "test-util"))]
#![expect(clippy::unwrap_used, reason = "a failure is the test's")]

mod child;
mod dead_link;
mod false_ready;
mod hot_loop;
mod leaked_socket;
mod moving_name;
mod namespace;
mod needless_pings;
#[path = "../real/mod.rs"]
mod real;
mod server_goodbye;
mod shared_address;
mod silent_handshake;
mod time;
mod unread_messages;
mod vanished_client;
