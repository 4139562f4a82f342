//! Reads that go on when nobody waits for them any more.
//!
//! etcd 3.5 before 3.5.7 ends with a panic when a client cancels a transaction that only
//! reads while it is being served (its issues 14110 and 14891). A candidate drops its calls
//! whenever it resigns or joins again: these it leaves to end by themselves, which they do
//! within their limit.

use std::{
    fmt,
    sync::{Mutex, PoisonError},
};

use tokio::{sync::oneshot, task::JoinSet};

/// The reads that run; the end of this ends them.
#[derive(Default)]
pub(super) struct Reads(Mutex<JoinSet<()>>);

// ===== impl Reads =====

impl Reads {
    /// Runs a read to its end. `None` where the runtime has ended it.
    pub(super) async fn run<T>(&self, read: impl Future<Output = T> + Send + 'static) -> Option<T>
    where
        T: Send + 'static,
    {
        let (tell, told) = oneshot::channel();
        {
            let mut running = self.0.lock().unwrap_or_else(PoisonError::into_inner);
            while running.try_join_next().is_some() {}
            running.spawn(async move {
                // An error means that nobody waits: the answer is not needed.
                let _ = tell.send(read.await);
            });
        }
        told.await.ok()
    }
}

impl fmt::Debug for Reads {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Reads").finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use tokio::sync::Notify;

    use super::*;

    #[tokio::test]
    async fn a_read_that_nobody_waits_for_goes_on_until_the_store_is_dropped() {
        let (reads, goes_on) = (Reads::default(), Arc::new(Notify::new()));
        let (ended, has_ended) = oneshot::channel();
        let signal = Arc::clone(&goes_on);
        let dropped = reads.run(async move {
            signal.notified().await;
            let _ = ended.send(());
        });
        let waits = tokio::time::timeout(std::time::Duration::ZERO, dropped);
        assert!(waits.await.is_err(), "nobody waits for it now");
        goes_on.notify_one();
        has_ended.await.expect("it went on");

        let (ended, has_ended) = oneshot::channel::<()>();
        let forever = reads.run(async move {
            std::future::pending::<()>().await;
            drop(ended);
        });
        let waits = tokio::time::timeout(std::time::Duration::ZERO, forever);
        assert!(waits.await.is_err());
        drop(reads);
        assert!(has_ended.await.is_err(), "it ends with the store");
    }
}
