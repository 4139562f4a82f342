//! What a pool tells its owner.

use std::fmt;

use crate::connector::{Failure, OpenError};
use crate::worker::WorkerId;

/// Something that happened to one worker.
///
/// Per worker, events follow
/// `(AttemptFailed* Connected Message* Disconnected)* AttemptFailed* Removed?`, where
/// [`HigherTerm`](EventKind::HigherTerm) stands for a failed attempt. Generations
/// rise, zero apart, and nothing of a generation follows its `Disconnected`.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Event<In> {
    /// To whom.
    pub worker: WorkerId,
    /// The session or attempt it belongs to; zero where its entry had none yet.
    pub generation: u64,
    /// What.
    pub kind: EventKind<In>,
}

/// What happened to a worker.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum EventKind<In> {
    /// An attempt to open a session failed; it is retried until the worker is removed.
    ///
    /// Attempts that nobody has taken note of are told as one, the last.
    #[non_exhaustive]
    AttemptFailed {
        /// Why.
        error: OpenError,
        /// How many attempts have failed since the last healthy session.
        attempts: u32,
    },
    /// A session began.
    #[non_exhaustive]
    Connected {
        /// The worker's incarnation, where its handshake told one.
        incarnation: Option<u64>,
    },
    /// A message arrived that answers no round.
    Message(In),
    /// The session is over.
    Disconnected {
        /// Why.
        reason: DisconnectReason,
    },
    /// An attempt was refused because the worker has seen a higher term.
    ///
    /// Whether that ends the leader is for its owner to decide, with the store.
    HigherTerm {
        /// The term that the worker has seen.
        term: u64,
    },
    /// The worker left the pool; the last event of its entry.
    Removed,
}

/// Why a session ended.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum DisconnectReason {
    /// The worker ended the stream without an error.
    Closed,
    /// The stream broke, or the worker ended it with an error.
    Failed(Failure),
    /// Another target was inserted for the worker.
    Replaced,
    /// The worker was removed.
    Removed,
    /// The pool was closed.
    PoolClosed,
}

/// Messages and inputs that a pool dropped, by kind.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub struct Counters {
    /// Answers on the present session to a round of an earlier one.
    pub older_generation: u64,
    /// Answers to a round that had ended without them.
    pub late: u64,
    /// Second answers of one worker to one round.
    pub duplicate: u64,
    /// Answers to a round that was never injected.
    pub unknown: u64,
    /// Answers of a worker that was no target of the round.
    pub not_a_target: u64,
    /// Messages dropped because [`Events`](crate::Events) was.
    pub discarded: u64,
    /// Messages and ends of a session that was over already.
    pub stale_inputs: u64,
}

// ===== impl DisconnectReason =====

impl fmt::Display for DisconnectReason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Closed => f.write_str("the worker closed the stream"),
            Self::Failed(failure) => fmt::Display::fmt(failure, f),
            Self::Replaced => f.write_str("the worker has another target"),
            Self::Removed => f.write_str("the worker was removed"),
            Self::PoolClosed => f.write_str("the pool was closed"),
        }
    }
}

// ===== impl Counters =====

impl std::ops::AddAssign for Counters {
    fn add_assign(&mut self, other: Self) {
        self.older_generation += other.older_generation;
        self.late += other.late;
        self.duplicate += other.duplicate;
        self.unknown += other.unknown;
        self.not_a_target += other.not_a_target;
        self.discarded += other.discarded;
        self.stale_inputs += other.stale_inputs;
    }
}
