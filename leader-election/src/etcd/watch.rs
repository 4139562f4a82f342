//! A watch that notices when it is stuck.

use std::time::Duration;

use etcd_client::{Client, Error as EtcdError, WatchOptions, WatchResponse, WatchStream};
use tokio::time::timeout;

use super::{failure::to_error, link::Link};
use crate::{Error, ErrorKind};

/// A watch of some keys from a revision on.
pub(super) struct Watch<'a> {
    link: &'a Link,
    /// Which connection of the link it is over.
    number: usize,
    stream: WatchStream,
    /// Silence after which it is asked whether it lives; as long again, and it is stuck.
    patience: Duration,
}

/// What a watch tells.
pub(super) enum Notice {
    /// Events, in order, of all that happened at one or several revisions.
    Events(WatchResponse),
    /// What it would have told is compacted: read anew.
    Compacted,
}

/// What to watch.
pub(super) struct Watched {
    pub(super) key: Vec<u8>,
    pub(super) is_prefix: bool,
}

// ===== impl Watched =====

impl Watched {
    pub(super) fn key(key: Vec<u8>) -> Self {
        Self {
            key,
            is_prefix: false,
        }
    }

    pub(super) fn prefix(key: Vec<u8>) -> Self {
        Self {
            key,
            is_prefix: true,
        }
    }

    fn from(&self, revision: i64) -> WatchOptions {
        let options = WatchOptions::new().with_start_revision(revision);
        if self.is_prefix {
            options.with_prefix()
        } else {
            options
        }
    }
}

// ===== impl Watch =====

impl<'a> Watch<'a> {
    pub(super) fn new(link: &'a Link, number: usize, stream: WatchStream) -> Self {
        Self {
            link,
            number,
            stream,
            patience: link.limit(),
        }
    }

    /// Watches from the revision after `read`, which the caller has read at.
    ///
    /// A watch that starts at a revision that exists already is served by etcd in
    /// rounds of 100 ms only.
    pub(super) async fn open(
        mut client: Client,
        watched: Vec<Watched>,
        read: i64,
    ) -> Result<WatchStream, EtcdError> {
        let mut watched = watched.into_iter();
        let first = watched
            .next()
            .ok_or_else(|| EtcdError::InvalidArgs("nothing to watch".to_owned()))?;
        let options = first.from(read + 1);
        let mut stream = client.watch(first.key, Some(options)).await?;
        for next in watched {
            let options = next.from(read + 1);
            stream.watch(next.key, Some(options)).await?;
        }
        Ok(stream)
    }

    /// Waits for what happens next.
    pub(super) async fn next(&mut self) -> Result<Notice, Error> {
        let notice = self.notice().await;
        if notice.is_err() {
            self.link.suspect(self.number);
        }
        notice
    }

    async fn notice(&mut self) -> Result<Notice, Error> {
        let mut is_asked = false;
        loop {
            let Ok(answer) = timeout(self.patience, self.stream.message()).await else {
                if is_asked {
                    let text = format!("a watch was silent for {:?}", 2 * self.patience);
                    return Err(Error::new(ErrorKind::Unavailable, text));
                }
                is_asked = true;
                self.stream.request_progress().await.map_err(to_error)?;
                continue;
            };
            let Some(response) = answer.map_err(to_error)? else {
                return Err(Error::new(ErrorKind::Unavailable, "etcd ended a watch"));
            };
            is_asked = false;
            if response.compact_revision() > 0 {
                return Ok(Notice::Compacted);
            }
            if response.canceled() {
                return Err(canceled(&response));
            }
            if !response.events().is_empty() {
                return Ok(Notice::Events(response));
            }
        }
    }
}

/// Never final: versions of etcd call a login that is too old a lack of permission. The reads
/// before each watch tell which it is.
fn canceled(response: &WatchResponse) -> Error {
    let reason = response.cancel_reason();
    let text = format!("etcd canceled a watch: {reason:.128}");
    Error::new(ErrorKind::Unavailable, text)
}
