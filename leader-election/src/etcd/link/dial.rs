//! A new connection, to whichever endpoint serves first.
//!
//! An endpoint that accepts and is mute, or a member that is cut off from the others,
//! must not hold up the next one: they are tried beside each other, one a little after
//! the other, and only one that has answered a read counts.

use std::{sync::Arc, time::Duration};

use etcd_client::{Client, Error as EtcdError};
use tokio::{
    task::JoinSet,
    time::{sleep, timeout},
};
use tonic::{Status, transport::Endpoint};

use super::Login;
use crate::{
    Error, ErrorKind,
    etcd::failure::{is_of_the_link, lacks_tls, to_error},
};

/// How much later than one endpoint the next is tried.
const HEAD_START: Duration = Duration::from_millis(200);
/// The pause before an endpoint that refused is tried again while another is silent.
const RETRY: Duration = Duration::from_millis(100);
/// How long an endpoint may be silent.
const SILENCE: Duration = Duration::from_secs(1);

/// How to connect.
#[derive(Clone)]
pub(super) struct Dial {
    pub(super) login: Arc<Login>,
    /// The key that is read.
    pub(super) probe: Vec<u8>,
    /// Within this the caller wants a connection, and its answer.
    pub(super) limit: Duration,
}

// ===== impl Dial =====

impl Dial {
    /// Connects to the first endpoint that serves, the earlier ones preferred.
    ///
    /// Fails when each has failed at least once, and at once when etcd refuses the user.
    pub(super) async fn first_of(self, endpoints: Vec<Endpoint>) -> Result<Client, Error> {
        let count = u32::try_from(endpoints.len()).unwrap_or(u32::MAX).max(1);
        let head_start = HEAD_START.min(self.limit / (2 * count));
        let mut failed = vec![false; endpoints.len()];
        let mut attempts = JoinSet::new();
        let mut pause = Duration::ZERO;
        for (index, endpoint) in endpoints.iter().enumerate() {
            attempts.spawn(self.clone().attempt(index, endpoint.clone(), pause));
            pause += head_start;
        }
        while let Some(done) = attempts.join_next().await {
            let Ok((index, tried)) = done else {
                continue;
            };
            let error = match tried {
                Ok(client) => {
                    tracing::debug!(endpoint = %endpoints[index].uri(), "connected to etcd");
                    return Ok(client);
                }
                Err(error) if lacks_tls(&error) => {
                    let text = format!(
                        "the endpoint {} wants TLS and has no settings for it: give its Endpoint \
                         a tls_config",
                        endpoints[index].uri()
                    );
                    return Err(Error::new(ErrorKind::Invalid, text).with_source(error));
                }
                Err(error) if !is_of_the_link(&error) && !self.login.is_missing(&error) => {
                    return Err(to_error(error));
                }
                Err(error) => error,
            };
            failed[index] = true;
            if failed.iter().all(|failed| *failed) {
                let text = format!(
                    "no endpoint of etcd serves, the last that was tried is {}: start etcd there, \
                     or correct the endpoints",
                    endpoints[index].uri()
                );
                return Err(Error::new(ErrorKind::Unavailable, text).with_source(error));
            }
            attempts.spawn(self.clone().attempt(index, endpoints[index].clone(), RETRY));
        }
        let text = "no endpoint of etcd could be tried";
        Err(Error::new(ErrorKind::Unavailable, text))
    }

    async fn attempt(
        self,
        index: usize,
        endpoint: Endpoint,
        pause: Duration,
    ) -> (usize, Result<Client, EtcdError>) {
        sleep(pause).await;
        let limit = SILENCE.min(self.limit);
        let tried = timeout(limit, self.connect(endpoint)).await;
        let silent = |_| Err(Status::deadline_exceeded("the endpoint is silent").into());
        (index, tried.unwrap_or_else(silent))
    }

    /// Connects, logs in, and reads something, linearizably: the member can reach the
    /// others.
    async fn connect(self, endpoint: Endpoint) -> Result<Client, EtcdError> {
        let client = self.login.connect(&endpoint).await?;
        match client.clone().get(self.probe, None).await {
            Err(error) if is_of_the_link(&error) || self.login.is_missing(&error) => Err(error),
            // The call that follows tells of any other error.
            Ok(_) | Err(_) => Ok(client),
        }
    }
}
