//! What a proxy has met.

use std::sync::atomic::{AtomicU64, Ordering};

use super::Way;

/// What a proxy has met so far.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub struct ProxyCounts {
    /// Connections that were accepted; those that the port refused are the kernel's.
    pub connections: u64,
    /// Connections that the proxy reset: by [`reset`](super::FaultProxy::reset), or
    /// because one side broke or the target could not be reached.
    pub resets: u64,
    /// Connections whose target could not be reached, among the resets.
    pub unreached: u64,
    /// The way from whoever connected to the target.
    pub to_target: WayCounts,
    /// The way from the target to whoever connected.
    pub to_client: WayCounts,
}

/// What became of the bytes on one way.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub struct WayCounts {
    /// Bytes passed on.
    pub passed: u64,
    /// Bytes read and dropped.
    pub swallowed: u64,
    /// Bytes that are in the proxy now.
    pub held: u64,
}

#[derive(Debug, Default)]
pub(super) struct Tally {
    connections: AtomicU64,
    resets: AtomicU64,
    unreached: AtomicU64,
    to_target: WayTally,
    to_client: WayTally,
}

#[derive(Debug, Default)]
pub(super) struct WayTally {
    passed: AtomicU64,
    swallowed: AtomicU64,
    held: AtomicU64,
}

// ===== impl Tally =====

impl Tally {
    pub(super) fn way(&self, way: Way) -> &WayTally {
        match way {
            Way::ToTarget => &self.to_target,
            Way::ToClient => &self.to_client,
        }
    }

    pub(super) fn count_connection(&self) {
        self.connections.fetch_add(1, Ordering::Relaxed);
    }

    pub(super) fn count_reset(&self) {
        self.resets.fetch_add(1, Ordering::Relaxed);
    }

    pub(super) fn count_unreached(&self) {
        self.unreached.fetch_add(1, Ordering::Relaxed);
    }

    pub(super) fn counts(&self) -> ProxyCounts {
        ProxyCounts {
            connections: self.connections.load(Ordering::Relaxed),
            resets: self.resets.load(Ordering::Relaxed),
            unreached: self.unreached.load(Ordering::Relaxed),
            to_target: self.to_target.counts(),
            to_client: self.to_client.counts(),
        }
    }
}

// ===== impl WayTally =====

impl WayTally {
    pub(super) fn read(&self, bytes: usize) {
        self.held.fetch_add(bytes as u64, Ordering::Relaxed);
    }

    pub(super) fn passed(&self, bytes: usize) {
        self.passed.fetch_add(bytes as u64, Ordering::Relaxed);
        self.held.fetch_sub(bytes as u64, Ordering::Relaxed);
    }

    pub(super) fn swallowed(&self, bytes: usize) {
        self.swallowed.fetch_add(bytes as u64, Ordering::Relaxed);
        self.held.fetch_sub(bytes as u64, Ordering::Relaxed);
    }

    fn counts(&self) -> WayCounts {
        WayCounts {
            passed: self.passed.load(Ordering::Relaxed),
            swallowed: self.swallowed.load(Ordering::Relaxed),
            held: self.held.load(Ordering::Relaxed),
        }
    }
}
