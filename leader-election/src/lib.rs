//! Leader election behind one object-safe async trait.
