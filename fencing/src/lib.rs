//! Self-fencing guards and fencing tokens.
