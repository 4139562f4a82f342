//! Measurements of the three crates beside what a user would write by hand.
