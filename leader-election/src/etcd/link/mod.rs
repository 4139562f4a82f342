//! Connections to etcd: one endpoint at a time, another one when it fails.

mod dial;
mod login;

use std::{
    fmt,
    future::Future,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use etcd_client::{Client, Error as EtcdError};
use tokio::{sync::OnceCell, time::timeout};
use tonic::transport::Endpoint;

use self::dial::Dial;
pub(super) use self::login::Login;
use super::{
    failure::{is_of_the_link, is_refused_login, to_error},
    watch::{Watch, Watched},
};
use crate::{Error, ErrorKind, clock::tokio_now};

/// One connection, replaced by one to whichever endpoint serves first when a call over
/// it fails or has no answer in time.
pub(super) struct Link {
    endpoints: Vec<Endpoint>,
    login: Arc<Login>,
    /// What a new connection reads first, to see that it is served.
    probe: Vec<u8>,
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
    current: &'a Current,
    was_open: bool,
    since: tokio::time::Instant,
    is_answered: bool,
}

// ===== impl Link =====

impl Link {
    /// Prepares a connection; it is opened by the first call. `endpoints` is not empty,
    /// and the user may read `probe`.
    pub(super) fn new(
        endpoints: Vec<Endpoint>,
        login: Arc<Login>,
        probe: &[u8],
        limit: Duration,
    ) -> Self {
        Self {
            endpoints,
            login,
            probe: probe.to_vec(),
            current: Mutex::new(Current {
                number: 0,
                client: Arc::default(),
            }),
            limit,
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
        self.over(&current, call).await
    }

    /// Watches from the revision after `read`.
    pub(super) async fn watch(&self, watched: Vec<Watched>, read: i64) -> Result<Watch<'_>, Error> {
        let current = self.lock().clone();
        let open = |client| Watch::open(client, watched, read);
        let stream = self.over(&current, open).await?.map_err(to_error)?;
        Ok(Watch::new(self, current.number, stream))
    }

    /// Gives up the connection of this number: a stream over it has failed or fallen
    /// silent. A younger one, which replaced it since, stays.
    pub(super) fn suspect(&self, number: usize) {
        self.replace(number);
    }

    /// Logs in as another user for what is called from now on.
    pub(super) fn set_user(&self, name: String, password: String) {
        self.login.change(name, password);
        self.log_in_anew();
    }

    /// Logs in anew for what is called from now on.
    pub(super) fn log_in_anew(&self) {
        let number = self.lock().number;
        self.replace(number);
    }

    /// Returns how long a call may take.
    pub(super) fn limit(&self) -> Duration {
        self.limit
    }

    async fn over<T, F, Fut>(
        &self,
        current: &Current,
        call: F,
    ) -> Result<Result<T, EtcdError>, Error>
    where
        F: FnOnce(Client) -> Fut + Send,
        Fut: Future<Output = Result<T, EtcdError>> + Send,
    {
        let mut suspicion = Suspicion {
            link: self,
            current,
            was_open: current.client.initialized(),
            since: tokio_now(),
            is_answered: false,
        };
        let answer = timeout(self.limit, async {
            let client = current.client.get_or_try_init(|| self.open(current.number));
            Ok(call(client.await?.clone()).await)
        });
        let answer = answer.await;
        suspicion.is_answered = true;
        let is_late = answer.is_err();
        let answer = answer.unwrap_or_else(|_| Err(self.no_answer()));
        let is_replaced = self.lock().number != current.number;
        let answer = match answer {
            Ok(Err(error)) if self.login.is_missing(&error) => Err(new_login(error)),
            Ok(Err(error)) if is_replaced && is_refused_login(&error) => Err(new_login(error)),
            Err(error) if is_replaced && error.kind() == ErrorKind::Denied => Err(new_login(error)),
            answer => answer,
        };
        let is_broken = match &answer {
            Ok(answer) => answer.as_ref().is_err_and(is_of_the_link),
            Err(_) => !(is_late && suspicion.is_young()),
        };
        if is_broken {
            self.replace(current.number);
        }
        answer
    }

    /// A connection of its own, which has to do with no other: after an outage TCP
    /// itself would wait for long before it tries again.
    async fn open(&self, number: usize) -> Result<Client, Error> {
        let count = self.endpoints.len();
        let mut in_turn = self.endpoints.clone();
        in_turn.rotate_left(number % count);
        let dial = Dial {
            login: Arc::clone(&self.login),
            probe: self.probe.clone(),
            limit: self.limit,
        };
        dial.first_of(in_turn).await
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
        tracing::debug!("the connection to etcd is given up");
    }

    fn no_answer(&self) -> Error {
        let text = format!("etcd did not answer within {:?}", self.limit);
        Error::new(ErrorKind::Unavailable, text)
    }

    fn lock(&self) -> MutexGuard<'_, Current> {
        self.current.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl fmt::Debug for Link {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let endpoints: Vec<_> = self.endpoints.iter().map(Endpoint::uri).collect();
        f.debug_struct("Link")
            .field("endpoints", &endpoints)
            .finish_non_exhaustive()
    }
}

// ===== impl Suspicion =====

impl Suspicion<'_> {
    /// Says whether the connection was opened within the call, which so had less than its
    /// limit: where etcd is far away, the next one has enough.
    fn is_young(&self) -> bool {
        !self.was_open && self.current.client.initialized()
    }
}

impl Drop for Suspicion<'_> {
    fn drop(&mut self) {
        let is_late = !self.is_answered && self.since.elapsed() >= self.link.limit / 2;
        if is_late && !self.is_young() {
            self.link.replace(self.current.number);
        }
    }
}

/// Makes an error that a new connection makes good: etcd's authentication was turned on, or
/// another user set, since the call's was opened.
fn new_login(error: impl std::error::Error + Send + Sync + 'static) -> Error {
    let text = "the connection to etcd has an old login or none: the next call logs in";
    Error::new(ErrorKind::Unavailable, text).with_source(error)
}
