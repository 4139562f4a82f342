//! The three crates composed into a full meta/compute barrier loop.
