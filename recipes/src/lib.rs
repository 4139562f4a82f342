//! How a resource refuses a stale holder: one file to copy for each kind of resource.
//!
//! Each recipe keeps a journal of entries, in place of what your service keeps. It takes
//! the same calls as the others and holds to the same promise, which [`conformance`]
//! checks: no entry of a token lands behind one of a higher token, and an entry that is
//! written again after an unknown outcome is there once.
//!
//! To use one, copy its file and `write.rs`, and put your own effect where the entry is
//! written: in the same transaction, the same object, the same file. The README has a
//! table of what each one rests on.

pub mod conformance;
pub mod etcd_foreign;
pub mod etcd_own;
pub mod file;
pub mod object_log;
pub mod postgres;
pub mod row_lease;
pub mod sqlite;
mod write;

pub use write::{Entry, WriteError, check, refusal};

#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;
