//! What the pool's optional parts do, one module per failure they hunt.
#![allow(
    clippy::unwrap_used,
    reason = "a failure of a test's own steps is the test's failure"
)]

#[path = "../double/mod.rs"]
mod double;
#[cfg(feature = "tonic")]
#[path = "../real/mod.rs"]
mod real;

#[cfg(feature = "tonic")]
mod abrupt_end;
#[cfg(feature = "metrics")]
mod countless_series;
mod noisy_log;
#[cfg(feature = "tonic")]
mod plain_server;
mod rude_greeting;
#[cfg(feature = "tonic")]
mod too_large;
#[cfg(feature = "tonic")]
mod wrong_input;
