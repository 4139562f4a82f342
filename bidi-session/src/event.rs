//! What a pool tells its owner.
