//! What a person sees: the progress while it runs, the report at the end.
//!
//! Nothing here can stop a run: the display reads a `watch` on a thread of its
//! own, and the printer is waited for only as long as nobody interrupts.

mod display;
mod printer;
mod summary;

pub use display::Display;
pub use printer::print;
pub use summary::{Summary, percentile};
