//! How etcd is reached.

use std::fmt;

/// How etcd is reached, beside its endpoints.
///
/// TLS belongs to the endpoints: give `tonic::transport::Endpoint`s with a
/// `ClientTlsConfig`, and turn on the TLS features of the `tonic` crate that you want.
/// This crate chooses no crypto provider.
#[derive(Clone)]
#[non_exhaustive]
pub struct EtcdOptions {
    /// User and password; none by default. Logs in anew when etcd asks for it, and goes on
    /// without a login where authentication is turned off. For others while the process runs
    /// see [`set_user`](super::EtcdElection::set_user).
    ///
    /// The user's role needs to read and write the keys from `<name>/` up to, and
    /// without, `<name>0`, and the key `leader-election/life/<name>`.
    pub user: Option<(String, String)>,
    /// Whether a renewal counts only when a linearizable read, sent after etcd's answer
    /// to it, has found the candidate's key. Default true.
    ///
    /// Versions of etcd before 3.4.38, 3.5.23 and 3.6.5 confirm the renewal of a lease
    /// that they have revoked, or revoke one that was renewed. Without the read, a leader
    /// on such a version can lead beyond its lease.
    pub verify_renewals: bool,
}

// ===== impl EtcdOptions =====

impl EtcdOptions {
    /// Sets the user and its password.
    #[must_use]
    pub fn with_user(mut self, name: impl Into<String>, password: impl Into<String>) -> Self {
        self.user = Some((name.into(), password.into()));
        self
    }

    /// Sets whether a renewal counts only once it is verified.
    #[must_use]
    pub fn with_verify_renewals(mut self, verify_renewals: bool) -> Self {
        self.verify_renewals = verify_renewals;
        self
    }
}

impl Default for EtcdOptions {
    fn default() -> Self {
        Self {
            user: None,
            verify_renewals: true,
        }
    }
}

impl fmt::Debug for EtcdOptions {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let user = self.user.as_ref().map(|(name, _)| name);
        f.debug_struct("EtcdOptions")
            .field("user", &user)
            .field("verify_renewals", &self.verify_renewals)
            .finish()
    }
}
