//! The generated service that all measurements talk over.
#![allow(
    missing_docs,
    unreachable_pub,
    unused_qualifications,
    clippy::all,
    clippy::allow_attributes_without_reason,
    clippy::too_many_lines,
    reason = "generated"
)]

include!("../../bidi-session/tests/gen/worker.v1.rs");
