//! The settings of a pool.
