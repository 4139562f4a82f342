//! What is measured, of what, and what is compared with what.

use benches::{Flavor, Service};

/// What is measured.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Case {
    /// One message of this size in flight.
    PingPong { size: usize },
    /// Messages of this size as fast as they go, over so many sessions.
    Stream { size: usize, sessions: usize },
    /// Barrier rounds of 64 bytes with so many workers.
    Round { workers: usize },
    /// Memory of a process with so many idle sessions.
    Memory { workers: usize },
}

/// By what the workers are reached.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    /// The pool and the acceptor.
    Pool,
    /// Streams written by hand: a queue and a task for each worker.
    Raw,
    /// One stream that the measuring loop itself reads: no task, no queue of answers.
    Bare,
    /// Two unary calls.
    Unary,
    /// Tasks of one process.
    Floor,
}

/// A figure that a case's samples give, and how it is compared.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Figure {
    /// Its name.
    pub(crate) name: &'static str,
    /// Its place in a sample's line.
    pub(crate) place: usize,
}

/// Every case, in the order of the report.
pub(crate) const CASES: &[Case] = &[
    Case::PingPong { size: 64 },
    Case::PingPong { size: 1024 },
    Case::Stream {
        size: 64,
        sessions: 1,
    },
    Case::Stream {
        size: 64,
        sessions: 8,
    },
    Case::Stream {
        size: 1024,
        sessions: 1,
    },
    Case::Stream {
        size: 1024,
        sessions: 8,
    },
    Case::Round { workers: 1 },
    Case::Round { workers: 8 },
    Case::Round { workers: 64 },
    Case::Round { workers: 256 },
    Case::Round { workers: 1000 },
    Case::Memory { workers: 1000 },
];

// ===== impl Case =====

impl Case {
    pub(crate) fn from_text(text: &str) -> Option<Self> {
        CASES.iter().copied().find(|case| case.name() == text)
    }

    pub(crate) fn name(self) -> String {
        match self {
            Self::PingPong { size } => format!("ping/{size}B"),
            Self::Stream { size, sessions } => format!("stream/{size}B/x{sessions}"),
            Self::Round { workers } => format!("round/{workers}"),
            Self::Memory { workers } => format!("memory/{workers}"),
        }
    }

    pub(crate) fn workers(self) -> usize {
        match self {
            Self::PingPong { .. } => 1,
            Self::Stream { sessions, .. } => sessions,
            Self::Round { workers } | Self::Memory { workers } => workers,
        }
    }

    /// Says whether both processes share one CPU: few messages in flight measure how long
    /// a halted CPU takes to wake up otherwise.
    pub(crate) fn is_pinned(self) -> bool {
        match self {
            Self::PingPong { .. } => true,
            Self::Round { workers } => workers < 64,
            Self::Stream { .. } | Self::Memory { .. } => false,
        }
    }

    pub(crate) fn flavor(self) -> Flavor {
        if self.is_pinned() {
            Flavor::Current
        } else {
            Flavor::Multi
        }
    }

    /// Who is measured, each round of the interleaving in this order.
    pub(crate) fn kinds(self) -> &'static [Kind] {
        match self {
            Self::PingPong { .. } => &[Kind::Pool, Kind::Raw, Kind::Bare],
            Self::Stream { .. } | Self::Memory { .. } => &[Kind::Pool, Kind::Raw],
            Self::Round { .. } => &[Kind::Pool, Kind::Raw, Kind::Unary, Kind::Floor],
        }
    }

    /// Which kinds are divided by which.
    pub(crate) fn comparisons(self) -> &'static [(Kind, Kind)] {
        match self {
            Self::PingPong { .. } => &[(Kind::Pool, Kind::Raw), (Kind::Pool, Kind::Bare)],
            Self::Stream { .. } => &[(Kind::Pool, Kind::Raw)],
            Self::Round { .. } => &[
                (Kind::Pool, Kind::Raw),
                (Kind::Pool, Kind::Unary),
                (Kind::Raw, Kind::Unary),
            ],
            Self::Memory { .. } => &[(Kind::Pool, Kind::Raw)],
        }
    }

    pub(crate) fn figures(self) -> &'static [Figure] {
        const fn figure(name: &'static str, place: usize) -> Figure {
            Figure { name, place }
        }
        const RATE: Figure = figure("per second", 0);
        const P50: Figure = figure("p50 us", 1);
        const P99: Figure = figure("p99 us", 2);
        const CPU: Figure = figure("CPU us, controller", 3);
        const CPU_THERE: Figure = figure("CPU us, workers", 4);
        const KIB: Figure = figure("KiB a session", 0);
        match self {
            Self::PingPong { .. } | Self::Round { .. } => &[RATE, P50, P99, CPU, CPU_THERE],
            Self::Stream { .. } => &[RATE, CPU, CPU_THERE],
            Self::Memory { .. } => &[KIB],
        }
    }
}

// ===== impl Kind =====

impl Kind {
    pub(crate) fn from_text(text: &str) -> Option<Self> {
        let kinds = [Self::Pool, Self::Raw, Self::Bare, Self::Unary, Self::Floor];
        kinds.into_iter().find(|kind| kind.name() == text)
    }

    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Pool => "pool",
            Self::Raw => "raw",
            Self::Bare => "bare",
            Self::Unary => "unary",
            Self::Floor => "floor",
        }
    }

    pub(crate) fn service(self) -> Service {
        if self == Self::Pool {
            Service::Acceptor
        } else {
            Service::Plain
        }
    }
}
