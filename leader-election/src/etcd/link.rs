//! Connections to etcd: one endpoint at a time, another one when it fails.

use std::{
    fmt,
    future::Future,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use etcd_client::{Channel, Client, ConnectOptions, Error as EtcdError};
use tokio::{sync::OnceCell, time::timeout};
use tonic::transport::Endpoint;

use super::failure::{is_of_the_link, to_error};
use crate::{Error, ErrorKind, clock::tokio_now};

/// One connection, replaced by one to the next endpoint when a call over it fails or
/// has no answer in time.
pub(super) struct Link {
    endpoints: Vec<Endpoint>,
    options: ConnectOptions,
    current: Mutex<Current>,
    /// Bound of each call.
    limit: Duration,
}

#[derive(Clone)]
struct Current {
    // Counts the replacements: tells which connection a failure is about.
    number: usize,
    client: Arc<OnceCell<Client>>,
}

/// Replaces the connection if the call was dropped without an answer after a while:
/// its caller had a shorter limit.
struct Suspicion<'a> {
    link: &'a Link,
    number: usize,
    since: tokio::time::Instant,
    is_answered: bool,
}

// ===== impl Link =====

impl Link {
    /// Prepares a connection; it is opened by the first call. `endpoints` is not empty.
    pub(super) fn new(endpoints: Vec<Endpoint>, options: ConnectOptions, limit: Duration) -> Self {
        Self {
            endpoints,
            options,
            limit,
            current: Mutex::new(Current {
                number: 0,
                client: Arc::default(),
            }),
        }
    }

    /// Makes a call, or several that belong together, within the limit.
    pub(super) async fn call<T, F, Fut>(&self, call: F) -> Result<T, Error>
    where
        F: FnOnce(Client) -> Fut + Send,
        Fut: Future<Output = Result<T, EtcdError>> + Send,
    {
        self.raw(call).await?.map_err(to_error)
    }

    /// Like [`call`](Self::call), and leaves an answer of etcd to its caller.
    pub(super) async fn raw<T, F, Fut>(&self, call: F) -> Result<Result<T, EtcdError>, Error>
    where
        F: FnOnce(Client) -> Fut + Send,
        Fut: Future<Output = Result<T, EtcdError>> + Send,
    {
        let current = self.lock().clone();
        let mut suspicion = Suspicion {
            link: self,
            number: current.number,
            since: tokio_now(),
            is_answered: false,
        };
        let answer = timeout(self.limit, async {
            let client = current.client.get_or_try_init(|| self.open(current.number));
            call(client.await?.clone()).await
        });
        let answer = answer.await;
        suspicion.is_answered = true;
        let Ok(answer) = answer else {
            self.replace(current.number);
            return Err(self.no_answer(current.number));
        };
        if answer.as_ref().is_err_and(is_of_the_link) {
            self.replace(current.number);
        }
        Ok(answer)
    }

    /// Gives up the present connection: a stream over it has fallen silent.
    pub(super) fn suspect(&self) {
        let number = self.lock().number;
        self.replace(number);
    }

    /// Returns how long a call may take.
    pub(super) fn limit(&self) -> Duration {
        self.limit
    }

    /// A connection of its own, which has to do with no other: after an outage TCP
    /// itself would wait for long before it tries again.
    async fn open(&self, number: usize) -> Result<Client, EtcdError> {
        let channel = self.endpoint(number).connect_lazy();
        Client::from_channel(Channel::Tonic(channel), Some(self.options.clone())).await
    }

    fn replace(&self, number: usize) {
        let mut current = self.lock();
        if current.number != number {
            return;
        }
        *current = Current {
            number: number + 1,
            client: Arc::default(),
        };
        let endpoint = self.endpoint(number + 1).uri();
        tracing::debug!(%endpoint, "connects to etcd anew");
    }

    fn endpoint(&self, number: usize) -> &Endpoint {
        &self.endpoints[number % self.endpoints.len()]
    }

    fn no_answer(&self, number: usize) -> Error {
        let text = format!(
            "{} did not answer within {:?}",
            self.endpoint(number).uri(),
            self.limit
        );
        Error::new(ErrorKind::Unavailable, text)
    }

    fn lock(&self) -> MutexGuard<'_, Current> {
        self.current.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl fmt::Debug for Link {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Link")
            .field("endpoint", self.endpoint(self.lock().number).uri())
            .finish_non_exhaustive()
    }
}

// ===== impl Suspicion =====

impl Drop for Suspicion<'_> {
    fn drop(&mut self) {
        if !self.is_answered && self.since.elapsed() >= self.link.limit / 2 {
            self.link.replace(self.number);
        }
    }
}
