//! What a won campaign returns.

mod tenure;

use std::{fmt, sync::Arc, time::Duration};

pub(crate) use self::tenure::Tenure;
use crate::{Error, ErrorKind, Loss, MAX_VALUE_BYTES, Place, Resigned, Standing, Store};

/// A won campaign, until it is lost or resigned.
///
/// Its lease is renewed in the background on the runtime that campaigned.
/// Dropping it resigns in the background, also outside a runtime; to know that
/// the next candidate may start, await [`resign`](Self::resign). So does a process that is
/// about to end: where the runtime ends right after the drop, the place stays until its
/// lease is over.
///
/// At any instant at most one leadership of an election
/// [is valid](Self::is_valid), given that the store neither ends a lease early
/// nor loses data. A check is in the past once the work it allowed begins:
/// resources that must not see a former leader compare the
/// [`token`](Self::token).
pub struct Leadership {
    place: Place,
    tenure: Arc<Tenure>,
    store: Arc<dyn Store>,
    /// Within this, `resign` and `proclaim` answer.
    patience: Duration,
}

// ===== impl Leadership =====

impl Leadership {
    pub(crate) fn new(
        place: Place,
        tenure: Arc<Tenure>,
        store: Arc<dyn Store>,
        renew_timeout: Duration,
    ) -> Self {
        Self {
            place,
            tenure,
            store,
            patience: renew_timeout.saturating_mul(2),
        }
    }

    /// Returns the fencing token: higher than that of every earlier leadership
    /// of this election and scope, the same as long as this one lasts.
    ///
    /// In etcd it is the create revision of the leader's key, which
    /// `EtcdElection::leader_key` of the feature `etcd` returns: a transaction that compares
    /// the two lands only while the leadership has not been given to another.
    #[must_use]
    pub fn token(&self) -> u64 {
        self.place.token
    }

    /// Returns the scope of the token: tokens of different scopes are never
    /// compared. Empty for the memory backend.
    #[must_use]
    pub fn scope(&self) -> &str {
        &self.place.scope
    }

    /// Returns the time since boot by which work must have stopped.
    ///
    /// On the clock of [`boot_time`](crate::boot_time). Counts from when the last confirmed
    /// renewal was *sent*: the store cannot
    /// have started the lease earlier, so it cannot end it earlier. Never falls
    /// but to zero, which means over and is final.
    #[must_use]
    pub fn deadline(&self) -> Duration {
        self.tenure.deadline()
    }

    /// Returns the time left until the deadline, zero when it is over.
    ///
    /// For logs, and for the limit of a request that is sent now. Do not hand it on: a pause
    /// in between would lengthen it, which the [`deadline`](Self::deadline) does not allow.
    #[must_use]
    pub fn time_left(&self) -> Duration {
        self.tenure.remaining()
    }

    /// Tells whether this side may still act as the leader.
    ///
    /// Loads the deadline first and reads the clock second. Once false it stays
    /// false, whatever the store answers later. It needs no runtime and no
    /// answer from anyone.
    #[must_use]
    pub fn is_valid(&self) -> bool {
        !self.tenure.deadline().is_zero()
    }

    /// Calls `f` with the present deadline at once, then in the very call that
    /// confirms a renewal or loss.
    ///
    /// Several callbacks are allowed; calls are serialised. The values never
    /// fall, but for zero, which means over and is the last. Zero may come
    /// later than the deadline itself, so do not rely on it.
    ///
    /// `f` must not block, since renewals wait for it, and must not follow,
    /// resign or drop this leadership from within. A panic in it counts as
    /// loss: [`Loss::FollowerPanicked`].
    pub fn follow<F>(&self, f: F)
    where
        F: FnMut(Duration) + Send + 'static,
    {
        self.tenure.follow(Box::new(f));
    }

    /// Resolves when the leadership is over, with the reason.
    ///
    /// Advisory: it comes as soon as the runtime gets to it, after the deadline
    /// at times. The future borrows nothing.
    ///
    /// # Cancel safety
    ///
    /// Cancel safe; each call gives a future that resolves, also after the loss.
    pub fn lost(&self) -> impl Future<Output = Loss> + Send + use<> {
        let mut loss = self.tenure.watch_loss();
        async move {
            let seen = loss.wait_for(Option::is_some).await;
            // An error means that the leadership was dropped: it resigned.
            seen.ok().and_then(|loss| *loss).unwrap_or(Loss::Resigned)
        }
    }

    /// Returns who holds the place.
    #[cfg(feature = "etcd")]
    pub(crate) fn candidate(&self) -> crate::CandidateId {
        self.place.id
    }

    /// Replaces the published value; the token stays.
    ///
    /// `value` has at most [`MAX_VALUE_BYTES`] bytes. Answers within twice the
    /// renew timeout.
    ///
    /// # Errors
    ///
    /// [`ErrorKind::Invalid`] when `value` is too long. [`ErrorKind::Lost`] when
    /// the leadership is over; if the store was the first to know,
    /// [`lost`](Self::lost) resolves too. [`ErrorKind::Unavailable`] when the
    /// store did not answer in time: the value may or may not be published.
    ///
    /// # Panics
    ///
    /// Outside a tokio runtime with a timer.
    ///
    /// # Cancel safety
    ///
    /// Cancel safe; whether a dropped call published the value is unknown.
    pub async fn proclaim(&self, value: &[u8]) -> Result<(), Error> {
        check_value(value)?;
        // Nothing is sent past the deadline.
        let limit = self.patience.min(self.tenure.remaining());
        if limit.is_zero() {
            return Err(lost());
        }
        let call = self.store.proclaim(&self.place, value);
        let Ok(answer) = tokio::time::timeout(limit, call).await else {
            return Err(Error::new(
                ErrorKind::Unavailable,
                format!("the store did not answer within {limit:?}"),
            ));
        };
        match answer? {
            Standing::Gone(loss) => {
                self.tenure.end(loss);
                Err(lost())
            }
            _ => Ok(()),
        }
    }

    /// Gives the leadership up; the next candidate may lead at once.
    ///
    /// The leadership is over on this side with the first poll, before anything
    /// is sent: stop the work first. Answers within twice the renew timeout.
    /// An unconfirmed release goes on in the background, also beyond the deadline, for an
    /// hour at most. It can never remove a successor's place.
    ///
    /// Repeatable: a later call waits again, or returns the known outcome.
    ///
    /// # Panics
    ///
    /// Outside a tokio runtime with a timer.
    ///
    /// # Cancel safety
    ///
    /// Cancel safe once polled: the release goes on in the background.
    pub async fn resign(&self) -> Resigned {
        self.tenure.end(Loss::Resigned);
        let mut release = self.tenure.watch_release();
        let known = release.wait_for(Option::is_some);
        match tokio::time::timeout(self.patience, known).await {
            Ok(Ok(outcome)) => outcome.unwrap_or(Resigned::Unconfirmed),
            Ok(Err(_)) | Err(_) => Resigned::Unconfirmed,
        }
    }
}

impl Drop for Leadership {
    fn drop(&mut self) {
        // The task that renews sees it and leaves the place.
        self.tenure.end(Loss::Resigned);
    }
}

impl fmt::Debug for Leadership {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Leadership")
            .field("token", &self.token())
            .field("scope", &self.scope())
            .field("deadline", &self.deadline())
            .finish_non_exhaustive()
    }
}

/// Refuses a value that is too long to publish.
pub(crate) fn check_value(value: &[u8]) -> Result<(), Error> {
    if value.len() <= MAX_VALUE_BYTES {
        return Ok(());
    }
    Err(Error::new(
        ErrorKind::Invalid,
        format!(
            "the value has {} bytes, {MAX_VALUE_BYTES} are allowed",
            value.len()
        ),
    ))
}

fn lost() -> Error {
    Error::new(ErrorKind::Lost, "the leadership is over")
}
