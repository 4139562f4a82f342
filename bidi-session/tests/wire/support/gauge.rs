//! Counts what is there at a moment, and lets a test wait for a count.

use std::sync::Arc;

use tokio::sync::watch;

use super::soon;

/// A count that goes up and down; clones share it.
#[derive(Clone)]
pub(crate) struct Gauge {
    count: Arc<watch::Sender<usize>>,
    most: Arc<watch::Sender<usize>>,
}

/// Counts for as long as it lives.
pub(crate) struct Inside(Gauge);

impl Gauge {
    pub(crate) fn new() -> Self {
        Self {
            count: Arc::new(watch::Sender::new(0)),
            most: Arc::new(watch::Sender::new(0)),
        }
    }

    pub(crate) fn enter(&self) -> Inside {
        self.count.send_modify(|count| *count += 1);
        let now = *self.count.borrow();
        self.most.send_modify(|most| *most = now.max(*most));
        Inside(self.clone())
    }

    pub(crate) fn count(&self) -> usize {
        *self.count.borrow()
    }

    /// Returns the highest count so far.
    pub(crate) fn most(&self) -> usize {
        *self.most.borrow()
    }

    /// Waits until exactly so many are there.
    pub(crate) async fn until(&self, expected: usize) {
        let mut count = self.count.subscribe();
        soon(count.wait_for(|count| *count == expected))
            .await
            .unwrap();
    }
}

impl Drop for Inside {
    fn drop(&mut self) {
        self.0.count.send_modify(|count| *count -= 1);
    }
}
