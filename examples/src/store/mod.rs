//! s
mod chain;
pub use chain::*;
