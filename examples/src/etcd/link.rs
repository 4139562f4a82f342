//! Calls to etcd: each with a limit, over a connection that is replaced when one fails.

use std::fmt;
use std::future::Future;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use etcd_client::{Client, Error, Txn, TxnOpResponse, TxnResponse};
use tonic::Code;

/// How long a call may take, its connection included.
const LIMIT: Duration = Duration::from_secs(1);

/// A connection to one of several endpoints; clones share it.
///
/// No answer within a second, or one that is none of etcd's, and the next call opens a
/// new connection, to the next endpoint.
#[derive(Clone)]
pub struct Link {
    endpoints: Arc<[String]>,
    current: Arc<Mutex<Current>>,
}

#[derive(Default)]
struct Current {
    client: Option<Client>,
    /// Counts the connections that were given up; also chooses the endpoint.
    failures: usize,
}

/// A call without a usable answer; what it was to do may be done or not.
#[derive(Clone, Debug)]
pub struct Unreachable {
    text: String,
    /// etcd has read the call and refuses it for what it is: a repetition cannot help.
    pub is_refused: bool,
}

impl fmt::Display for Unreachable {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

impl std::error::Error for Unreachable {}

// ===== impl Link =====

impl Link {
    /// Prepares a connection; the first call opens it.
    #[must_use]
    pub fn new(endpoints: &[String]) -> Self {
        Self {
            endpoints: endpoints.into(),
            current: Arc::default(),
        }
    }

    /// Makes a call.
    ///
    /// # Errors
    ///
    /// [`Unreachable`]; what the call was to do may have been done.
    ///
    /// # Cancel safety
    ///
    /// As the call itself.
    pub async fn call<T, F, Fut>(&self, call: F) -> Result<T, Unreachable>
    where
        F: FnOnce(Client) -> Fut,
        Fut: Future<Output = Result<T, Error>>,
    {
        let (client, number) = {
            let current = self.lock();
            (current.client.clone(), current.failures)
        };
        let attempt = async {
            let client = match client {
                Some(client) => client,
                None => self.connect(number).await?,
            };
            call(client).await
        };
        match tokio::time::timeout(LIMIT, Box::pin(attempt)).await {
            Ok(Ok(answer)) => Ok(answer),
            Ok(Err(error)) => {
                let unreachable = unreachable(&error);
                if !unreachable.is_refused {
                    self.give_up(number);
                }
                Err(unreachable)
            }
            Err(_) => {
                self.give_up(number);
                Err(Unreachable {
                    text: format!("etcd does not answer within {LIMIT:?}"),
                    is_refused: false,
                })
            }
        }
    }

    /// Carries out a transaction.
    ///
    /// # Errors
    ///
    /// [`Unreachable`]; it may have been carried out.
    ///
    /// # Cancel safety
    ///
    /// A dropped one may still be carried out.
    pub async fn txn(&self, txn: Txn) -> Result<TxnResponse, Unreachable> {
        self.call(|mut client| async move { client.txn(txn).await })
            .await
    }

    async fn connect(&self, number: usize) -> Result<Client, Error> {
        let endpoint = self.endpoints.get(number % self.endpoints.len().max(1));
        let endpoint = endpoint.map_or("", String::as_str);
        let client = Client::connect([endpoint], None).await?;
        let mut current = self.lock();
        if current.failures == number {
            current.client = Some(client.clone());
        }
        Ok(client)
    }

    fn give_up(&self, number: usize) {
        let mut current = self.lock();
        // A younger connection, which replaced it since, stays.
        if current.failures == number {
            current.failures += 1;
            current.client = None;
        }
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, Current> {
        self.current.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl fmt::Debug for Link {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Link")
            .field("endpoints", &self.endpoints)
            .finish_non_exhaustive()
    }
}

fn unreachable(error: &Error) -> Unreachable {
    let Error::GRpcStatus(status) = error else {
        let text = format!("the call to etcd failed: {error}");
        let is_refused = matches!(error, Error::InvalidArgs(_));
        return Unreachable { text, is_refused };
    };
    let refused = [
        Code::InvalidArgument,
        Code::PermissionDenied,
        Code::NotFound,
        Code::FailedPrecondition,
        Code::OutOfRange,
        Code::Unimplemented,
    ];
    let said = status.message();
    // What etcd itself says begins like this.
    let is_silent = status.code() == Code::Unavailable && !said.starts_with("etcdserver");
    let text = if is_silent {
        format!("etcd cannot be reached ({said}): start it, or correct --etcd")
    } else {
        format!("etcd says: {said}")
    };
    Unreachable {
        text,
        is_refused: refused.contains(&status.code()),
    }
}

/// Returns what the reads of a transaction found, in order.
pub(super) fn reads(response: &TxnResponse) -> impl Iterator<Item = etcd_client::GetResponse> {
    let answers = response.op_responses().into_iter();
    answers.filter_map(|answer| match answer {
        TxnOpResponse::Get(read) => Some(read),
        _ => None,
    })
}
