//! The names of a loop's keys in etcd.

use crate::wire::Epoch;

/// The keys of the loop of one name.
#[derive(Clone, Debug)]
pub struct Keys {
    name: String,
}

// ===== impl Keys =====

impl Keys {
    /// Names the keys of the loop `name`.
    #[must_use]
    pub fn new(name: &str) -> Self {
        Self {
            name: name.trim_end_matches('/').to_owned(),
        }
    }

    /// The election's name.
    #[must_use]
    pub fn election(&self) -> String {
        self.below("leader")
    }

    /// Where etcd's life is named: its deletion makes a new scope of tokens.
    #[must_use]
    pub fn life(&self) -> String {
        format!("leader-election/life/{}", self.election())
    }

    /// What all keys of the loop begin with.
    #[must_use]
    pub fn all(&self) -> String {
        self.below("")
    }

    /// The last committed manifest.
    #[must_use]
    pub fn head(&self) -> String {
        self.below("head")
    }

    /// What each key of the chain begins with.
    #[must_use]
    pub fn chain(&self) -> String {
        self.below("chain/")
    }

    /// One link of the chain: a manifest without positions. The order of these keys is
    /// that of the epochs.
    #[must_use]
    pub fn link(&self, epoch: Epoch) -> String {
        format!("{}{:020}-{:020}", self.chain(), epoch.term, epoch.n)
    }

    /// What each worker's entry begins with.
    #[must_use]
    pub fn workers(&self) -> String {
        self.below("workers/")
    }

    /// Where a worker is registered.
    #[must_use]
    pub fn worker(&self, id: &str) -> String {
        self.workers() + id
    }

    /// What each request begins with.
    #[must_use]
    pub fn requests(&self) -> String {
        self.below("requests/")
    }

    /// What a user asks for.
    #[must_use]
    pub fn request(&self, id: &str) -> String {
        self.requests() + id
    }

    /// What became of it.
    #[must_use]
    pub fn answer(&self, id: &str) -> String {
        self.below("answers/") + id
    }

    /// What the leader does, as text.
    #[must_use]
    pub fn status(&self) -> String {
        self.below("status")
    }

    fn below(&self, rest: &str) -> String {
        format!("{}/{rest}", self.name)
    }
}
