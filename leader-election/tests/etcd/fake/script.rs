//! What the fake does to its answers.

use std::{
    sync::{
        Mutex, PoisonError,
        atomic::{AtomicU64, Ordering},
    },
    time::Duration,
};

use etcd_client::proto::{
    PbLeaseGrantResponse, PbLeaseKeepAliveResponse, PbTxnRequest, PbTxnResponse, PbWatchResponse,
};
use tokio::time::sleep;
use tonic::Status;

use super::model::Model;

/// What becomes of an answer.
pub(super) enum Fate<T> {
    /// It is sent as it is.
    Kept(T),
    /// Another one is sent.
    Changed(T),
    /// Several are sent, or none, where the protocol streams.
    Instead(Vec<T>),
    /// An error is sent, and what was done stays done.
    Refused(Status),
    /// The right one is sent, late.
    Late(T, Duration),
    /// It is sent, and its stream ends.
    Last(T),
}

type Bend<T> = Box<dyn FnMut(&mut Model, T) -> Fate<T> + Send>;
type BendTxn =
    Box<dyn FnMut(&mut Model, &PbTxnRequest, PbTxnResponse) -> Fate<PbTxnResponse> + Send>;

/// The faults of each call; none at first.
#[derive(Default)]
pub(super) struct Script {
    pub(super) grant: Mutex<Option<Bend<PbLeaseGrantResponse>>>,
    pub(super) keep_alive: Mutex<Option<Bend<PbLeaseKeepAliveResponse>>>,
    pub(super) txn: Mutex<Option<BendTxn>>,
    pub(super) watch: Mutex<Option<Bend<PbWatchResponse>>>,
    /// How many answers were not kept as they were.
    bent: AtomicU64,
    /// How many late answers to transactions were still wanted when they were due.
    late: AtomicU64,
}

// ===== impl Script =====

impl Script {
    pub(super) fn bent(&self) -> u64 {
        self.bent.load(Ordering::Relaxed)
    }

    pub(super) fn late(&self) -> u64 {
        self.late.load(Ordering::Relaxed)
    }

    /// Sends the answer to a transaction; dropped where its caller cancels it.
    pub(super) async fn send(&self, fate: Fate<PbTxnResponse>) -> Result<PbTxnResponse, Status> {
        let is_late = matches!(fate, Fate::Late(..));
        let answer = fate.single().await;
        self.late.fetch_add(u64::from(is_late), Ordering::Relaxed);
        answer
    }

    /// Decides about an answer.
    pub(super) fn fate<T>(
        &self,
        bend: &Mutex<Option<Bend<T>>>,
        model: &mut Model,
        answer: T,
    ) -> Fate<T> {
        let mut bend = bend.lock().unwrap_or_else(PoisonError::into_inner);
        self.count(match bend.as_mut() {
            Some(bend) => bend(model, answer),
            None => Fate::Kept(answer),
        })
    }

    /// Decides about the answer to a transaction.
    pub(super) fn fate_of_txn(
        &self,
        model: &mut Model,
        asked: &PbTxnRequest,
        answer: PbTxnResponse,
    ) -> Fate<PbTxnResponse> {
        let mut bend = self.txn.lock().unwrap_or_else(PoisonError::into_inner);
        self.count(match bend.as_mut() {
            Some(bend) => bend(model, asked, answer),
            None => Fate::Kept(answer),
        })
    }

    fn count<T>(&self, fate: Fate<T>) -> Fate<T> {
        if !matches!(fate, Fate::Kept(_)) {
            self.bent.fetch_add(1, Ordering::Relaxed);
        }
        fate
    }
}

// ===== impl Fate =====

impl<T> Fate<T> {
    /// Returns what a call without streams answers.
    pub(super) async fn single(self) -> Result<T, Status> {
        match self {
            Self::Kept(answer) | Self::Changed(answer) | Self::Last(answer) => Ok(answer),
            Self::Refused(status) => Err(status),
            Self::Late(answer, delay) => {
                sleep(delay).await;
                Ok(answer)
            }
            Self::Instead(_) => panic!("one call, one answer"),
        }
    }

    /// Returns what a stream answers, and whether it goes on.
    pub(super) async fn streamed(self) -> (Vec<Result<T, Status>>, bool) {
        match self {
            Self::Last(answer) => (vec![Ok(answer)], false),
            Self::Refused(status) => (vec![Err(status)], false),
            Self::Instead(answers) => (answers.into_iter().map(Ok).collect(), true),
            kept => (vec![kept.single().await], true),
        }
    }
}
