//! What faults have done.

use std::ops::AddAssign;

/// What the faults of an address have done so far: what was only set is not counted.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub struct FaultCounts {
    /// Dials, those that went well included.
    pub dials: u64,
    /// Dials that were refused: by fault, or because nobody served there.
    pub dials_refused: u64,
    /// Dials that hung, for a while or for good.
    pub dials_held: u64,
    /// Times that a reader found its way cut or stalled.
    pub reads_held: u64,
    /// Messages that were delayed.
    pub messages_delayed: u64,
    /// Ends of connections that keepalive gave up; each connection has two.
    pub silent_ends: u64,
    /// Connections that were reset.
    pub resets: u64,
    /// Connections that died with their worker.
    pub kills: u64,
    /// Messages that were on their way when a fault ended their connection.
    pub messages_lost: u64,
}

impl AddAssign for FaultCounts {
    fn add_assign(&mut self, other: Self) {
        self.dials += other.dials;
        self.dials_refused += other.dials_refused;
        self.dials_held += other.dials_held;
        self.reads_held += other.reads_held;
        self.messages_delayed += other.messages_delayed;
        self.silent_ends += other.silent_ends;
        self.resets += other.resets;
        self.kills += other.kills;
        self.messages_lost += other.messages_lost;
    }
}
