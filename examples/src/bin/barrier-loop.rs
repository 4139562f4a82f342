//! The barrier loop in one process.

fn main() {}
