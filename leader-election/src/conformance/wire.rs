//! A way to a store that can be cut.

use std::{future::pending, sync::Arc, time::Duration};

use async_trait::async_trait;
use tokio::sync::watch;

use super::Cut;
use crate::{CandidateId, Error, ErrorKind, Grant, Leader, Place, Renewal, Standing, Store};

/// A way to a store that can be cut, for the nodes of a [`Harness`](super::Harness).
///
/// It is a [`Store`] itself. Clones are the same way.
#[derive(Debug)]
pub struct Wire<S> {
    store: Arc<S>,
    cut: Arc<watch::Sender<Option<Cut>>>,
}

// ===== impl Wire =====

impl<S: Store> Wire<S> {
    /// Makes a way that is whole.
    pub fn new(store: S) -> Self {
        Self {
            store: Arc::new(store),
            cut: Arc::new(watch::Sender::new(None)),
        }
    }

    /// Cuts it until it is [healed](Self::heal).
    pub fn cut(&self, cut: Cut) {
        self.cut.send_replace(Some(cut));
    }

    /// Makes it whole again. Requests whose callers still wait are served.
    pub fn heal(&self) {
        self.cut.send_replace(None);
    }

    /// Carries a request there and its answer back.
    async fn carry<T>(&self, call: impl Future<Output = Result<T, Error>>) -> Result<T, Error> {
        self.until(|cut| cut != Some(Cut::Requests)).await;
        let answer = call.await;
        self.until(|cut| cut != Some(Cut::Requests) && cut != Some(Cut::LateAnswers))
            .await;
        if *self.cut.borrow() == Some(Cut::Answers) {
            pending::<()>().await;
        }
        answer
    }

    /// Carries a stream of news, which breaks with the first cut and tells so once the
    /// way is whole again.
    async fn stream<T>(&self, call: impl Future<Output = Result<T, Error>>) -> Result<T, Error> {
        self.until(|cut| cut.is_none()).await;
        tokio::select! {
            biased;
            () = self.until(|cut| cut.is_some()) => {}
            answer = call => return answer,
        }
        self.until(|cut| cut.is_none()).await;
        let text = "the connection broke";
        Err(Error::new(ErrorKind::Unavailable, text))
    }

    async fn until(&self, is_met: impl Fn(Option<Cut>) -> bool + Send) {
        let mut cut = self.cut.subscribe();
        // The sender lives in `self`, so it does not close.
        let _ = cut.wait_for(|cut| is_met(*cut)).await;
    }
}

impl<S> Clone for Wire<S> {
    fn clone(&self) -> Self {
        Self {
            store: Arc::clone(&self.store),
            cut: Arc::clone(&self.cut),
        }
    }
}

#[async_trait]
impl<S: Store> Store for Wire<S> {
    async fn join(&self, id: CandidateId, value: &[u8], ttl: Duration) -> Result<Grant, Error> {
        self.carry(self.store.join(id, value, ttl)).await
    }

    async fn wait(&self, place: &Place, known: Standing) -> Result<Standing, Error> {
        self.stream(self.store.wait(place, known)).await
    }

    async fn verify(&self, place: &Place) -> Result<Standing, Error> {
        self.carry(self.store.verify(place)).await
    }

    async fn renew(&self, place: &Place) -> Result<Renewal, Error> {
        self.carry(self.store.renew(place)).await
    }

    async fn proclaim(&self, place: &Place, value: &[u8]) -> Result<Standing, Error> {
        self.carry(self.store.proclaim(place, value)).await
    }

    async fn leave(&self, id: CandidateId, token: Option<u64>) -> Result<(), Error> {
        self.carry(self.store.leave(id, token)).await
    }

    async fn observe(&self, leader: &watch::Sender<Option<Leader>>) -> Result<(), Error> {
        self.stream(self.store.observe(leader)).await
    }
}
