//! What an error of etcd means for the candidate.

use etcd_client::Error as EtcdError;
use tonic::{Code, Status};

use crate::{Error, ErrorKind};

/// Turns an error of the client into one that says what to do.
pub(super) fn to_error(error: EtcdError) -> Error {
    let EtcdError::GRpcStatus(status) = &error else {
        let kind = match &error {
            EtcdError::InvalidArgs(_) | EtcdError::InvalidUri(_) => ErrorKind::Invalid,
            _ => ErrorKind::Unavailable,
        };
        return Error::new(kind, "the call to etcd failed").with_source(error);
    };
    let (kind, text) = classify(status);
    Error::new(kind, text).with_source(error)
}

/// Whether another connection may do better: no answer of etcd itself.
pub(super) fn is_of_the_link(error: &EtcdError) -> bool {
    match error {
        EtcdError::GRpcStatus(status) => {
            matches!(
                status.code(),
                Code::Unavailable
                    | Code::Unknown
                    | Code::Internal
                    | Code::Cancelled
                    | Code::DeadlineExceeded
                    // The token is of an older life of etcd, or of an older revision of its
                    // users; a new connection logs in anew.
                    | Code::Unauthenticated
            ) || is_old_login(status)
                // Turned off since the connection logged in.
                || has_no_users(error)
        }
        EtcdError::InvalidArgs(_) | EtcdError::InvalidUri(_) => false,
        EtcdError::LeaseKeepAliveError(_) => !is_lease_gone(error),
        _ => true,
    }
}

/// Whether the endpoint says https and came without a `tls_config`.
pub(super) fn lacks_tls(error: &EtcdError) -> bool {
    let mut cause = Some(error as &dyn std::error::Error);
    while let Some(error) = cause {
        // tonic's error for it is private.
        if error.to_string().contains("HTTPS without TLS") {
            return true;
        }
        cause = error.source();
    }
    false
}

/// Whether etcd does not know the lease.
pub(super) fn is_lease_gone(error: &EtcdError) -> bool {
    match error {
        EtcdError::GRpcStatus(status) => {
            status.code() == Code::NotFound && status.message().contains("lease not found")
        }
        // How the client tells a TTL of zero.
        EtcdError::LeaseKeepAliveError(text) => text == "lease not found",
        _ => false,
    }
}

/// Whether a lease of this id exists already.
pub(super) fn is_lease_taken(error: &EtcdError) -> bool {
    matches!(error, EtcdError::GRpcStatus(status)
        if status.message().contains("lease already exists"))
}

/// Whether the answer was too large for this client to take.
pub(super) fn is_answer_too_large(error: &EtcdError) -> bool {
    says(error, "decoded message length too large")
}

/// Whether the call came without a login to an etcd that wants one.
pub(super) fn wants_a_login(error: &EtcdError) -> bool {
    says(error, "user name is empty")
}

/// Whether nobody can log in, as authentication is turned off.
pub(super) fn has_no_users(error: &EtcdError) -> bool {
    says(error, "authentication is not enabled")
}

/// Whether the user or its password is wrong.
pub(super) fn is_refused_login(error: &EtcdError) -> bool {
    says(error, "authentication failed")
}

fn says(error: &EtcdError, text: &str) -> bool {
    matches!(error, EtcdError::GRpcStatus(status) if status.message().contains(text))
}

fn is_old_login(status: &Status) -> bool {
    status.message().contains("revision of auth store is old")
}

fn classify(status: &Status) -> (ErrorKind, &'static str) {
    let says = |text: &str| status.message().contains(text);
    if is_old_login(status) || says("invalid auth token") {
        return (ErrorKind::Unavailable, "etcd wants a new login");
    }
    if says("authentication failed") {
        let text = "etcd refuses the user or password: correct them";
        return (ErrorKind::Denied, text);
    }
    if says("user name is empty") {
        let text = "etcd wants a login: give a user and a password";
        return (ErrorKind::Denied, text);
    }
    if says("authentication is not enabled") {
        let text = "etcd's authentication was turned off: the next call goes without a login";
        return (ErrorKind::Unavailable, text);
    }
    match status.code() {
        Code::PermissionDenied | Code::Unauthenticated => (
            ErrorKind::Denied,
            "etcd denies access: the role needs to read and write the election's keys and its \
             life id",
        ),
        // Of its store, and of its gRPC server, whose limit is 512 KiB higher.
        _ if says("request is too large") || says("received message larger than max") => (
            ErrorKind::Invalid,
            "etcd takes no request this large: publish a shorter value",
        ),
        _ => (ErrorKind::Unavailable, "etcd did not serve the call"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn kind(code: Code, text: &str) -> ErrorKind {
        to_error(EtcdError::GRpcStatus(Status::new(code, text))).kind()
    }

    #[test]
    fn an_endpoint_without_its_tls_config_is_told_from_what_a_retry_helps() {
        // As tonic's connector says it.
        let cause: Box<dyn std::error::Error + Send + Sync> =
            "Connecting to HTTPS without TLS enabled".into();
        let status = Status::from_error(Box::new(std::io::Error::other(cause)));
        assert!(lacks_tls(&EtcdError::GRpcStatus(status)));
        let status = Status::from_error(Box::new(std::io::Error::other("connection refused")));
        assert!(!lacks_tls(&EtcdError::GRpcStatus(status)));
    }

    #[test]
    fn only_what_no_retry_can_help_is_final() {
        let cases = [
            (
                Code::InvalidArgument,
                "etcdserver: authentication failed, invalid user ID or password",
                ErrorKind::Denied,
            ),
            (
                Code::InvalidArgument,
                "etcdserver: user name is empty",
                ErrorKind::Denied,
            ),
            (
                Code::PermissionDenied,
                "etcdserver: permission denied",
                ErrorKind::Denied,
            ),
            (
                Code::FailedPrecondition,
                "etcdserver: authentication is not enabled",
                ErrorKind::Unavailable,
            ),
            (
                Code::InvalidArgument,
                "etcdserver: request is too large",
                ErrorKind::Invalid,
            ),
            (
                Code::ResourceExhausted,
                "grpc: received message larger than max (1048656 vs. 526288)",
                ErrorKind::Invalid,
            ),
            (
                Code::Unauthenticated,
                "etcdserver: invalid auth token",
                ErrorKind::Unavailable,
            ),
            (
                Code::InvalidArgument,
                "etcdserver: revision of auth store is old",
                ErrorKind::Unavailable,
            ),
            (
                Code::Unavailable,
                "etcdserver: no leader",
                ErrorKind::Unavailable,
            ),
            (
                Code::ResourceExhausted,
                "etcdserver: mvcc: database space exceeded",
                ErrorKind::Unavailable,
            ),
        ];
        for (code, text, expected) in cases {
            assert_eq!(kind(code, text), expected, "{text}");
        }
    }
}
