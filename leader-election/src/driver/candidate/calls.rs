//! The calls of a candidate to its store, each under a limit.

use std::{
    panic::{AssertUnwindSafe, catch_unwind},
    sync::Arc,
    time::Duration,
};

use super::Candidate;
use crate::{
    Error, ErrorKind, Grant, Place, Renewal, Standing, Store,
    candidacy::{Call, Input},
    measures,
};

/// A call to the store that runs.
#[derive(Clone, Copy, Debug)]
pub(in crate::driver) enum Asked {
    Once(Call),
    Renew(u64),
}

/// What a call to the store returned.
pub(super) enum Answer {
    Joined(Result<Grant, Error>),
    Verified(Result<Standing, Error>),
    Waited(Result<Standing, Error>),
    Renewed(u64, Result<Renewal, Error>),
    Left(Result<(), Error>),
}

// ===== impl Candidate =====

impl Candidate {
    pub(super) fn join(&mut self, limit: Duration) {
        let (store, id) = (Arc::clone(&self.store), self.id);
        let (value, ttl) = (Arc::clone(&self.value), self.config.ttl);
        self.call(Asked::Once(Call::Join), async move {
            Answer::Joined(within(limit, store.join(id, &value, ttl)).await)
        });
    }

    pub(super) fn verify(&mut self, limit: Duration) {
        let Some((store, place)) = self.seat() else {
            return;
        };
        self.call(Asked::Once(Call::Verify), async move {
            Answer::Verified(within(limit, store.verify(&place)).await)
        });
    }

    pub(super) fn wait(&mut self, known: Standing, limit: Duration) {
        let Some((store, place)) = self.seat() else {
            return;
        };
        self.call(Asked::Once(Call::Wait), async move {
            let changed = tokio::time::timeout(limit, store.wait(&place, known));
            // No news is an answer too.
            Answer::Waited(changed.await.unwrap_or(Ok(known)))
        });
    }

    pub(super) fn renew(&mut self, attempt: u64, limit: Duration) -> Option<Input> {
        if self.core.is_leading() && !self.makes_progress() {
            self.troubles.withheld(self.token());
            measures::withheld(&self.name, self.scope());
            return Some(Input::Withheld { attempt });
        }
        let (store, place) = self.seat()?;
        let (clock, name) = (self.clock.clone(), Arc::clone(&self.name));
        self.call(Asked::Renew(attempt), async move {
            let sent = clock.now();
            let answer = within(limit, store.renew(&place)).await;
            let took = clock.now().saturating_sub(sent);
            measures::renewed(&name, &place.scope, took, &answer);
            Answer::Renewed(attempt, answer)
        });
        None
    }

    pub(super) fn leave(&mut self, limit: Duration) {
        let (store, id, token) = (Arc::clone(&self.store), self.id, self.token());
        self.call(Asked::Once(Call::Leave), async move {
            Answer::Left(within(limit, store.leave(id, token)).await)
        });
    }

    fn call(&mut self, asked: Asked, call: impl Future<Output = Answer> + Send + 'static) {
        let id = self.calls.spawn(call).id();
        self.running.insert(id, asked);
    }

    fn seat(&self) -> Option<(Arc<dyn Store>, Place)> {
        Some((Arc::clone(&self.store), self.place.clone()?))
    }

    fn makes_progress(&self) -> bool {
        let Some(renew_while) = &self.config.renew_while else {
            return true;
        };
        catch_unwind(AssertUnwindSafe(|| renew_while())).unwrap_or(false)
    }
}

// ===== impl Answer =====

impl Answer {
    pub(super) fn error(self) -> Option<Error> {
        match self {
            Self::Joined(answer) => answer.err(),
            Self::Verified(answer) | Self::Waited(answer) => answer.err(),
            Self::Renewed(_, answer) => answer.err(),
            Self::Left(answer) => answer.err(),
        }
    }
}

async fn within<T>(
    limit: Duration,
    call: impl Future<Output = Result<T, Error>>,
) -> Result<T, Error> {
    tokio::time::timeout(limit, call).await.unwrap_or_else(|_| {
        Err(Error::new(
            ErrorKind::Unavailable,
            format!("the store did not answer within {limit:?}"),
        ))
    })
}
