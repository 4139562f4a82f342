//! A user's request to a running loop, and the wait for its answer.
//!
//! The request is a key; the commit that serves it removes the key and writes the answer
//! in the same transaction. So it is served once, whoever leads by then, and what is
//! withdrawn in time has left nothing behind.

use std::fmt;
use std::time::Duration;

use etcd_client::{
    Compare, CompareOp, DeleteOptions, KeyValue, LeaseGrantOptions, PutOptions, Txn, TxnOp,
    TxnResponse,
};
use prost::Message;
use tokio::time::{Instant, sleep};

use super::bulletin::told;
use super::keys::Keys;
use super::ledger::EtcdLedger;
use super::link::{Link, Unreachable, reads};
use crate::requests::{CLOSED, FINISHED, RequestKind};
use crate::wire::Manifest;

/// How often it looks for the answer, and the pause after a failed call.
const LOOK_EVERY: Duration = Duration::from_millis(100);

/// How long a request outlives the wait of a user who cannot withdraw it.
const BEYOND: Duration = Duration::from_secs(60);

/// One request of a user.
#[derive(Debug)]
pub struct Errand {
    link: Link,
    keys: Keys,
    kind: RequestKind,
}

/// Why a request was not served.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub enum Failed {
    /// It cannot be done; the loop says why.
    Refused(String),
    /// Not in time. It is withdrawn for certain; the loop's status says what it waited for.
    Withdrawn(String),
    /// etcd cannot be reached: whether it is served is unknown. What is left of it
    /// vanishes by itself.
    Unknown(String),
}

// ===== impl Errand =====

impl Errand {
    /// Prepares a request.
    #[must_use]
    pub fn new(link: Link, keys: Keys, kind: RequestKind) -> Self {
        Self { link, keys, kind }
    }

    /// Asks, and waits for the answer, at most so long. Returns what the loop says once
    /// the request is served durably.
    ///
    /// # Errors
    ///
    /// [`Failed`].
    ///
    /// # Cancel safety
    ///
    /// A dropped request may still be served; else it vanishes a minute after `wait`.
    pub async fn run(self, wait: Duration) -> Result<String, Failed> {
        let deadline = Instant::now() + wait;
        // A loop that is done has nobody left to answer.
        if let Ok((head, _)) = EtcdLedger::head(&self.link, &self.keys).await
            && let Some(settled) = self.settled_by(&head)
        {
            return settled;
        }
        let lease = self.grant(wait, deadline).await?;
        // Unique like the lease, so that a repetition is recognized.
        let id = format!("{lease:016x}");
        self.ask(&id, lease, deadline).await?;
        loop {
            match self.answer(&id).await {
                Ok(Some(answer)) => return judge(&answer),
                Err(error) if Instant::now() >= deadline + wait => {
                    return Err(Failed::Unknown(error.to_string()));
                }
                Ok(None) if Instant::now() >= deadline => {
                    if let Ok(settled) = self.withdraw(&id).await {
                        return settled;
                    }
                }
                _ => {}
            }
            sleep(LOOK_EVERY).await;
        }
    }

    async fn grant(&self, wait: Duration, deadline: Instant) -> Result<i64, Failed> {
        let seconds = (wait + BEYOND).as_secs();
        let seconds = i64::try_from(seconds).unwrap_or(i64::MAX);
        loop {
            let granted = self.link.call(|mut client| async move {
                client.lease_grant(seconds, None::<LeaseGrantOptions>).await
            });
            match granted.await {
                Ok(granted) => return Ok(granted.id()),
                // Nothing was asked yet.
                Err(error) if Instant::now() >= deadline => {
                    return Err(Failed::Withdrawn(error.to_string()));
                }
                Err(_) => sleep(LOOK_EVERY).await,
            }
        }
    }

    /// Writes the request, once: an attempt without an answer may have been served.
    async fn ask(&self, id: &str, lease: i64, deadline: Instant) -> Result<(), Failed> {
        let is_new = [self.keys.request(id), self.keys.answer(id)]
            .map(|key| Compare::create_revision(key, CompareOp::Equal, 0));
        let options = PutOptions::new().with_lease(lease);
        let put = TxnOp::put(self.keys.request(id), self.kind.to_string(), Some(options));
        let txn = Txn::new().when(is_new).and_then([put]);
        while let Err(error) = self.link.txn(txn.clone()).await {
            if error.is_refused || Instant::now() >= deadline {
                return Err(Failed::Unknown(error.to_string()));
            }
            sleep(LOOK_EVERY).await;
        }
        Ok(())
    }

    async fn answer(&self, id: &str) -> Result<Option<String>, Unreachable> {
        let key = self.keys.answer(id);
        let read = self
            .link
            .call(|mut client| async move { client.get(key, None).await });
        let read = read.await?;
        let answer = read.kvs().first().map(|kv| kv.value().to_vec());
        Ok(answer.map(|bytes| String::from_utf8_lossy(&bytes).into_owned()))
    }

    /// Takes the request back where it is not served.
    async fn withdraw(&self, id: &str) -> Result<Result<String, Failed>, Unreachable> {
        let (request, answer) = (self.keys.request(id), self.keys.answer(id));
        let is_open = Compare::create_revision(request.clone(), CompareOp::Greater, 0);
        let withdrawn = self.link.txn(
            Txn::new()
                .when([is_open])
                .and_then([
                    TxnOp::delete(request, None::<DeleteOptions>),
                    TxnOp::get(self.keys.head(), None),
                ])
                .or_else([TxnOp::get(answer, None)]),
        );
        let response = withdrawn.await?;
        let found = first(&response);
        if response.succeeded() {
            let head = found.and_then(|kv| Manifest::decode(kv.value()).ok());
            if let Some(settled) = head.and_then(|head| self.settled_by(&head)) {
                return Ok(settled);
            }
            let told = told(&self.link, &self.keys).await;
            let told = told.unwrap_or_else(|error| format!("it cannot be read: {error}"));
            return Ok(Err(Failed::Withdrawn(told)));
        }
        let found = found.map(|kv| String::from_utf8_lossy(kv.value()).into_owned());
        let found = found.unwrap_or_default();
        if found.is_empty() {
            let text = "etcd has lost the request, as it does when it is rebuilt";
            return Ok(Err(Failed::Unknown(text.to_owned())));
        }
        Ok(judge(&found))
    }

    /// What a chain that takes nothing any more answers by itself.
    fn settled_by(&self, head: &Manifest) -> Option<Result<String, Failed>> {
        head.closed.then(|| match self.kind {
            RequestKind::Add(_) => Err(Failed::Refused(CLOSED.to_owned())),
            RequestKind::Finish => Ok(FINISHED.to_owned()),
        })
    }
}

fn first(response: &TxnResponse) -> Option<KeyValue> {
    reads(response).next()?.take_kvs().pop()
}

fn judge(answer: &str) -> Result<String, Failed> {
    match answer.split_once(' ') {
        Some(("ok", says)) => Ok(says.to_owned()),
        _ => Err(Failed::Refused(
            answer.trim_start_matches("refused ").to_owned(),
        )),
    }
}

impl fmt::Display for Failed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Refused(why) => write!(f, "refused: {why}"),
            Self::Withdrawn(status) => write!(
                f,
                "not served in time, and withdrawn; the loop's status:\n{status}"
            ),
            Self::Unknown(why) => write!(f, "it is unknown whether it is served: {why}"),
        }
    }
}

impl std::error::Error for Failed {}
