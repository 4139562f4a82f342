//! Errors of the pool.
