//! What two ends that do not trust each other may meet on the wire: other languages,
//! refused handshakes, takeovers, certificates and garbage.
#![cfg(feature = "tonic")]

#[path = "../real/mod.rs"]
mod real;

#[allow(dead_code, reason = "its main is not called here")]
#[path = "../../examples/mtls.rs"]
mod mtls;

mod frames;
mod garbage;
mod late_attempt;
mod python;
mod raw;
mod strange_handshake;
mod tap;
mod tls;
mod trace;
mod two_controllers;
