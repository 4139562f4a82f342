//! Pure cores.
