//! The three crates composed into a full meta/compute barrier loop.
//!
//! [`meta`] is the control plane, [`compute`] a worker, [`store`] the resource
//! that checks tokens, [`embedded`] puts all of them into one process.

pub mod cli;
pub mod compute;
pub mod count;
pub mod embedded;
pub mod input;
pub mod journal;
pub mod meta;
pub mod report;
pub mod status;
pub mod store;
pub mod wire;
