//! What two ends that do not trust each other may meet on the wire: other languages,
//! refused handshakes, takeovers, certificates and garbage.
#![cfg(feature = "tonic")]

#[path = "../real/mod.rs"]
mod real;

mod frames;
mod python;
mod raw;
mod strange_handshake;
mod tap;
mod trace;
