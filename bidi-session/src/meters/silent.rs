//! Meters without the feature: none.

use std::time::Duration;

use super::{End, Step};
use crate::event::Counters;

#[derive(Debug, Default)]
pub(crate) struct Meters;

#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct OutboxMeter(());

// ===== impl Meters =====

impl Meters {
    pub(crate) fn joined(&self) {}

    pub(crate) fn stepped(&self, _: Step) {}

    pub(crate) fn dropped(&self, _: Counters, _: Counters) {}

    pub(crate) fn round_ended(&self, _: End, _: Duration) {}

    pub(crate) fn outbox(&self) -> OutboxMeter {
        OutboxMeter(())
    }
}

// ===== impl OutboxMeter =====

impl OutboxMeter {
    pub(crate) fn add(&self, _: usize) {}

    pub(crate) fn sub(&self, _: usize) {}
}
