//! Faults of the memory store, for tests of code that uses an election.

use super::store::MemoryStore;

#[cfg_attr(docsrs, doc(cfg(feature = "test-util")))]
impl MemoryStore {
    /// Cuts the holder of `token` off, as a black hole in the network does.
    ///
    /// From now on its requests stay without an answer, and without effect
    /// until [`heal`](Self::heal). Its lease runs out after the TTL, and then
    /// the next candidate leads.
    pub fn cut(&self, token: u64) {
        self.change(|queue| queue.cut(token));
    }

    /// Ends a [cut](Self::cut). Requests whose callers still wait are served.
    pub fn heal(&self, token: u64) {
        self.change(|queue| queue.heal(token));
    }

    /// Ends the lease of `token` at once, as an operator who revokes it does.
    ///
    /// The holder learns it from the store, so its leadership can still look
    /// valid for a moment when the next one begins.
    pub fn expire(&self, token: u64) {
        self.change(|queue| queue.remove(token));
    }

    /// Removes the key of `token`, as an operator who deletes it does.
    ///
    /// To this backend it is the same as [`expire`](Self::expire).
    pub fn delete(&self, token: u64) {
        self.change(|queue| queue.remove(token));
    }

    /// Returns how many places are in the queue, that of the leader included.
    #[must_use]
    pub fn places(&self) -> usize {
        self.present().0.len()
    }

    /// Returns the tokens of the places in the queue, the leader's first.
    #[must_use]
    pub fn tokens(&self) -> Vec<u64> {
        self.present().0.tokens()
    }
}
