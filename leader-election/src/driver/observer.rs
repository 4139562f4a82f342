//! Follows the leader for all observers of one election.

use std::{
    future::poll_fn,
    panic::{AssertUnwindSafe, catch_unwind},
    pin::{Pin, pin},
    sync::{Mutex, PoisonError},
    task::{Context, Poll, Waker},
    time::Duration,
};

use tokio::{sync::watch, task::AbortHandle};

use super::{
    Parts,
    outage::{Outage, Summary},
};
use crate::{Error, ErrorKind, Leader, backoff::Backoff, measures};

const RETRY_CAP: Duration = Duration::from_secs(1);
/// Where the store refuses to answer: each try may cost it the check of a password.
const REFUSED_CAP: Duration = Duration::from_secs(60);

/// One task that feeds every receiver; it starts with the first of them and
/// ends with the election, or with the runtime that it was started on.
#[derive(Debug, Default)]
pub(super) struct Observer {
    running: Mutex<Option<Running>>,
}

/// The sender is the task's: receivers end with it.
#[derive(Debug)]
struct Running {
    leader: watch::Receiver<Option<Leader>>,
    task: AbortHandle,
}

// ===== impl Observer =====

impl Observer {
    pub(super) fn subscribe(&self, parts: Parts) -> watch::Receiver<Option<Leader>> {
        let mut running = self.running.lock().unwrap_or_else(PoisonError::into_inner);
        let lives = running
            .as_ref()
            .filter(|running| running.leader.has_changed().is_ok());
        let mut leader = match lives {
            Some(running) => running.leader.clone(),
            None => {
                let new = Running::start(parts);
                let leader = new.leader.clone();
                *running = Some(new);
                leader
            }
        };
        leader.mark_unchanged();
        leader
    }
}

impl Drop for Observer {
    fn drop(&mut self) {
        let running = self.running.get_mut();
        if let Some(running) = running.unwrap_or_else(PoisonError::into_inner) {
            running.task.abort();
        }
    }
}

// ===== impl Running =====

impl Running {
    fn start(parts: Parts) -> Self {
        let runtime = tokio::runtime::Handle::current();
        let (sender, leader) = watch::channel(None);
        let mut run: Pin<Box<dyn Future<Output = ()> + Send>> = Box::pin(follow(parts, sender));
        // A first poll here lets a store that needs no network show the
        // present leader in the receiver that is about to be returned.
        let _ = run.as_mut().poll(&mut Context::from_waker(Waker::noop()));
        let task = runtime.spawn(run).abort_handle();
        Self { leader, task }
    }
}

async fn follow(parts: Parts, leader: watch::Sender<Option<Leader>>) {
    let mut backoff = Backoff::new(RETRY_CAP, fastrand::u64(..));
    let mut refused = Backoff::new(REFUSED_CAP, fastrand::u64(..));
    let mut outage = Outage::new(Duration::ZERO);
    let election = &*parts.name;
    loop {
        let before = leader.subscribe();
        let ended = {
            let mut run = pin!(without_panic(parts.store.observe(&leader)));
            tokio::select! {
                biased;
                ended = run.as_mut() => ended,
                () = recovered(&outage, before.clone(), parts.config.ttl) => {
                    tell_recovery(&mut outage, election);
                    run.await
                }
            }
        };
        let is_refused = ended.as_ref().is_err_and(Error::is_final);
        if let Err(error) = ended {
            measures::failed(election, "observe");
            let error = &error as &dyn std::error::Error;
            tracing::debug!(error, election, "following the leader failed");
            if let Some(Summary { lasted, failures }) = outage.failed() {
                let text = "cannot follow the leader: observers see the last one";
                tracing::warn!(error, election, ?lasted, failures, "{text}");
            }
        } else {
            tell_recovery(&mut outage, election);
        }
        if before.has_changed().unwrap_or(false) {
            backoff.reset();
        }
        let pause = if is_refused {
            refused.next()
        } else {
            refused.reset();
            backoff.next()
        };
        tokio::time::sleep(pause).await;
    }
}

/// Resolves when a fault that was told is over: a leader is shown, or nothing has failed
/// for longer than a store takes to fail.
async fn recovered(
    outage: &Outage,
    mut leader: watch::Receiver<Option<Leader>>,
    patience: Duration,
) {
    if !outage.is_told() {
        return std::future::pending().await;
    }
    // The sender is the caller's: it does not close.
    let _ = tokio::time::timeout(patience, leader.changed()).await;
}

fn tell_recovery(outage: &mut Outage, election: &str) {
    if let Some(Summary { lasted, failures }) = outage.over() {
        tracing::info!(election, ?lasted, failures, "follows the leader again");
    }
}

/// A panic of the store is a failure as any other: the receivers would never learn of the
/// end of this task.
async fn without_panic(run: impl Future<Output = Result<(), Error>>) -> Result<(), Error> {
    let mut run = pin!(run);
    poll_fn(|cx| {
        let polled = catch_unwind(AssertUnwindSafe(|| run.as_mut().poll(cx)));
        polled.unwrap_or_else(|_| {
            let error = Error::new(ErrorKind::Unavailable, "the store panicked");
            Poll::Ready(Err(error))
        })
    })
    .await
}
