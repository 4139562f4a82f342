//! The etcd backend: an election among processes, on the wire the same as etcd's own
//! recipe.
//!
//! Candidates of this crate, of etcd's Go package `concurrency` and of `etcdctl elect`
//! take part in the same election and see each other. Compiling the feature `etcd`
//! needs `protoc` (Debian's package `protobuf-compiler`), since `etcd-client` does.
//!
//! # Commits of the leader
//!
//! A check of the leadership is in the past once the write that it allowed begins. What is
//! written to the same etcd can be guarded by the leader's key instead: the transaction
//! compares the key's create revision with the token, so that it cannot land once the
//! leadership was given to another, and the mod revision of what it replaces, so that it
//! lands at most once. An attempt without an answer is settled by repeating it:
//!
//! ```no_run
#![doc = include_str!("../../examples/guarded_commit.rs")]
//! ```

mod endpoint;
mod failure;
mod floor;
mod join;
mod keys;
mod link;
mod observe;
mod options;
mod pages;
mod queue;
mod reads;
mod store;
mod tls;
mod watch;

use std::{sync::Arc, time::Duration};

pub use self::{endpoint::EtcdEndpoint, options::EtcdOptions};
use self::{
    keys::Keys,
    link::{Link, Login},
    store::{EtcdStore, whole_seconds},
};
use crate::{Election, ElectionConfig, Error, ErrorKind, Leader, Leadership, StoreElection};
use async_trait::async_trait;
use tokio::sync::watch::Receiver;

/// How often a connection with calls is pinged, and how long an answer may take. etcd
/// ends connections that ping more often than each 5 s.
const PING: Duration = Duration::from_secs(10);

const _: () = assert!(PING.as_secs() > 5);

/// An election in etcd.
///
/// Clones share the connections: one for renewals, one for all else. A connection goes to
/// the endpoint that was the first to serve a read. When a call over it fails, or has no
/// answer within the renew timeout, the next call opens a new one, for which the
/// endpoints are tried beside each other: neither one that is mute nor a member that is
/// cut off from the others holds it up.
///
/// A token is the create revision of the candidate's key. Tokens are comparable within
/// [`scope`](Self::scope): the life id of the store, which its first candidate makes at
/// random under `leader-election/life/<name>`, and the election's name.
///
/// After etcd was restored from a snapshot, revisions repeat. Candidates that have seen
/// higher ones refuse to lead, however far etcd comes, and log an error; others cannot
/// know. The operator's step after a restore is to delete the life id, which makes a new
/// scope, and to reset what has seen tokens.
#[derive(Clone, Debug)]
pub struct EtcdElection {
    election: StoreElection<EtcdStore>,
}

// ===== impl EtcdElection =====

impl EtcdElection {
    /// Takes part in the election `name`, at most 95 bytes, over these endpoints.
    ///
    /// An endpoint is a text such as `http://127.0.0.1:2379`, or a tonic `Endpoint`, which
    /// TLS needs: see [`EtcdEndpoint`]. An etcd that cannot be reached is no error: a
    /// campaign retries until it is dropped.
    ///
    /// # Errors
    ///
    /// [`ErrorKind::Invalid`] for a name, an endpoint or settings that cannot be used.
    /// [`ErrorKind::Denied`] when etcd wants other credentials.
    ///
    /// # Panics
    ///
    /// Outside a tokio runtime.
    ///
    /// # Cancel safety
    ///
    /// Cancel safe: nothing is written.
    pub async fn connect<E>(
        endpoints: impl IntoIterator<Item = E>,
        name: &str,
        config: ElectionConfig,
    ) -> Result<Self, Error>
    where
        E: Into<EtcdEndpoint>,
    {
        Self::connect_with(endpoints, name, config, EtcdOptions::default()).await
    }

    /// Takes part as [`connect`](Self::connect) does, with these options.
    ///
    /// # Errors
    ///
    /// Those of [`connect`](Self::connect).
    ///
    /// # Panics
    ///
    /// Outside a tokio runtime.
    ///
    /// # Cancel safety
    ///
    /// Cancel safe: nothing is written.
    pub async fn connect_with<E>(
        endpoints: impl IntoIterator<Item = E>,
        name: &str,
        config: ElectionConfig,
        options: EtcdOptions,
    ) -> Result<Self, Error>
    where
        E: Into<EtcdEndpoint>,
    {
        let endpoints = endpoints.into_iter().map(|one| one.into().check(PING));
        let endpoints = endpoints.collect::<Result<Vec<_>, _>>()?;
        let keys = Keys::new(name)?;
        config.validate()?;
        whole_seconds(config.ttl)?;
        if endpoints.is_empty() {
            let text = "no endpoint of etcd was given";
            return Err(Error::new(ErrorKind::Invalid, text));
        }
        let login = Arc::new(Login::new(options.user));
        let link = || {
            Link::new(
                endpoints.clone(),
                Arc::clone(&login),
                keys.life(),
                config.renew_timeout,
            )
        };
        let (link, renewals) = (link(), link());
        let store = EtcdStore::new(keys, link, renewals, options.verify_renewals);
        // Boxed: the calls of the client are large futures.
        match Box::pin(store.probe()).await {
            Err(error) if error.is_final() => return Err(error),
            Err(error) => tracing::warn!(
                error = &error as &dyn std::error::Error,
                "etcd cannot be reached yet"
            ),
            Ok(()) => {}
        }
        Ok(Self {
            election: StoreElection::new(store, config).with_name(name),
        })
    }

    /// Returns the scope of the tokens, which is made where there is none yet.
    ///
    /// # Errors
    ///
    /// [`ErrorKind::Unavailable`] when etcd did not answer within the renew timeout.
    /// [`ErrorKind::Denied`] when it wants other credentials.
    ///
    /// # Cancel safety
    ///
    /// Cancel safe.
    pub async fn scope(&self) -> Result<String, Error> {
        let store = self.election.store();
        let life = store.make_life().await?;
        Ok(store.keys.scope(&life).to_string())
    }

    /// Logs in as this user from now on, in all clones of this election.
    ///
    /// For a password that is changed while the process runs: a leader whose user is refused
    /// goes on until its deadline, and so outlives the change if it is told in time. A campaign
    /// that waits ends with [`ErrorKind::Denied`]. With a second user, set before the first one
    /// is removed from etcd, nobody is refused.
    ///
    /// Nothing is sent: the next call logs in.
    pub fn set_user(&self, name: impl Into<String>, password: impl Into<String>) {
        self.election.store().set_user(name.into(), password.into());
    }

    /// Returns the key of a leadership of this election: as long as it exists with the
    /// create revision that is the token, the leadership has not been given to another.
    #[must_use]
    pub fn leader_key(&self, leadership: &Leadership) -> Vec<u8> {
        self.election.store().keys.candidate(leadership.candidate())
    }

    /// Returns all candidates in the order in which they lead, the leader first.
    ///
    /// # Errors
    ///
    /// As [`scope`](Self::scope).
    ///
    /// # Cancel safety
    ///
    /// Cancel safe.
    pub async fn candidates(&self) -> Result<Vec<Leader>, Error> {
        self.election.store().all().await
    }
}

#[async_trait]
impl Election for EtcdElection {
    async fn campaign(&self, value: &[u8]) -> Result<Leadership, Error> {
        self.election.campaign(value).await
    }

    fn observe(&self) -> Receiver<Option<Leader>> {
        self.election.observe()
    }
}
