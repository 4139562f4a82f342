//! Resilient bidirectional-stream sessions keyed by worker id.
