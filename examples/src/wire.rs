//! The generated messages of `proto/barrier.proto`, and what their fields do not say.

use std::fmt;

#[allow(
    missing_docs,
    unreachable_pub,
    unused_qualifications,
    elided_lifetimes_in_paths,
    clippy::use_self,
    clippy::too_many_lines,
    clippy::allow_attributes_without_reason,
    reason = "generated code; the proto file holds the docs"
)]
mod generated {
    include!("generated/barrier.v1.rs");
}

pub use generated::*;

impl Epoch {
    /// Before any epoch: nothing is counted.
    pub const START: Self = Self { term: 0, n: 0 };

    /// Returns the epoch `n` of `term`.
    #[must_use]
    pub const fn new(term: u64, n: u64) -> Self {
        Self { term, n }
    }

    /// Returns the pair whose order is that of the chain.
    #[must_use]
    pub const fn order(self) -> (u64, u64) {
        (self.term, self.n)
    }
}

impl fmt::Display for Epoch {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.{}", self.term, self.n)
    }
}

impl Manifest {
    /// Returns the epoch that this one follows; [`Epoch::START`] for the first.
    #[must_use]
    pub fn predecessor(&self) -> Epoch {
        self.prev.unwrap_or(Epoch::START)
    }

    /// Returns the epoch that this manifest commits.
    #[must_use]
    pub fn id(&self) -> Epoch {
        self.epoch.unwrap_or(Epoch::START)
    }
}
