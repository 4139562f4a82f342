//! The claims, by what they are about.

pub(super) mod crashes;
pub(super) mod replies;
pub(super) mod rivals;
pub(super) mod tokens;
pub(super) mod values;
