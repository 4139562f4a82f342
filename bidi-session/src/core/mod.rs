//! Decisions without I/O or clock: time is an argument.

pub(crate) mod backoff;
pub(crate) mod damper;
pub(crate) mod peer;
pub(crate) mod rounds;
