//! As whom connections log in, where etcd wants that at all.

use std::{
    fmt,
    sync::{
        Mutex, PoisonError,
        atomic::{AtomicBool, Ordering::Relaxed},
    },
};

use etcd_client::{Channel, Client, ConnectOptions, Error as EtcdError};
use tonic::transport::Endpoint;

use crate::etcd::failure::{has_no_users, wants_a_login};

type User = Option<(String, String)>;

/// The user of all connections of an election.
///
/// etcd's authentication can be turned on and off under its clients. A user is no reason to
/// fail where it is off: there is nobody to log in as, and nothing that may not be done.
#[derive(Default)]
pub(in crate::etcd) struct Login {
    user: Mutex<User>,
    /// Whether the last connection found authentication turned off.
    is_off: AtomicBool,
}

// ===== impl Login =====

impl Login {
    pub(in crate::etcd) fn new(user: User) -> Self {
        Self {
            user: Mutex::new(user),
            is_off: AtomicBool::new(false),
        }
    }

    pub(in crate::etcd) fn change(&self, name: String, password: String) {
        *self.user.lock().unwrap_or_else(PoisonError::into_inner) = Some((name, password));
    }

    /// Whether a connection without a login missed etcd's wish for one: authentication was
    /// off when it was opened, and a new one logs in.
    pub(super) fn is_missing(&self, error: &EtcdError) -> bool {
        wants_a_login(error) && self.user().is_some()
    }

    /// Connects, and logs in where that is possible.
    pub(super) async fn connect(&self, endpoint: &Endpoint) -> Result<Client, EtcdError> {
        let channel = Channel::Tonic(endpoint.connect_lazy());
        let user = self.user();
        let has_user = user.is_some();
        match Client::from_channel(channel.clone(), Some(options(user))).await {
            Err(error) if has_no_users(&error) => {
                if !self.is_off.swap(true, Relaxed) {
                    tracing::warn!("authentication of etcd is off: goes on without its user");
                }
                Client::from_channel(channel, Some(options(None))).await
            }
            Ok(client) => {
                if has_user && self.is_off.swap(false, Relaxed) {
                    tracing::info!("authentication of etcd is on: logged in");
                }
                Ok(client)
            }
            Err(error) => Err(error),
        }
    }

    fn user(&self) -> User {
        let user = self.user.lock();
        user.unwrap_or_else(PoisonError::into_inner).clone()
    }
}

impl fmt::Debug for Login {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let name = self.user().map(|(name, _)| name);
        f.debug_struct("Login")
            .field("user", &name)
            .finish_non_exhaustive()
    }
}

fn options(user: User) -> ConnectOptions {
    let options = ConnectOptions::new()
        .with_require_leader(true)
        .with_auto_token_refresh(true);
    match user {
        Some((name, password)) => options.with_user(name, password),
        None => options,
    }
}
