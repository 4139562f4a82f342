//! The claims, each a play on a [`Stage`](super::stage::Stage).

pub(super) mod leaving;
pub(super) mod losing;
pub(super) mod observing;
pub(super) mod settings;
pub(super) mod winning;

use std::pin::Pin;

use super::stage::Outcome;

pub(super) type Checked<'a> = Pin<Box<dyn Future<Output = Outcome> + Send + 'a>>;
