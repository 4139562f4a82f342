//! The three crates composed into a full meta/compute barrier loop.

pub mod count;
pub mod input;
pub mod store;
pub mod wire;
