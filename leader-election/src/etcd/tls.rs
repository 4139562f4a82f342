//! Whether this build can speak TLS.
//!
//! That is the program's choice, by features of tonic that this crate cannot see. A
//! build without them would speak plain text to an endpoint that says https.

use tonic::transport::{Endpoint, Error};

/// Has the name of tonic's own method. That one exists only with TLS, and goes first.
#[allow(dead_code, reason = "only a build without TLS falls back on it")]
trait Fallback: Sized {
    fn tls_config(self, _: NoTls) -> Result<Self, NoTls>;
}

/// In the place of tonic's settings, and of its error.
#[derive(Default)]
struct NoTls;

/// Which of the two methods an error is of.
trait Origin {
    const HAS_TLS: bool;
}

// ===== impl Fallback =====

impl Fallback for Endpoint {
    fn tls_config(self, no_tls: NoTls) -> Result<Self, NoTls> {
        Err(no_tls)
    }
}

impl Origin for NoTls {
    const HAS_TLS: bool = false;
}

impl Origin for Error {
    const HAS_TLS: bool = true;
}

/// Whether an endpoint can say https.
pub(super) fn is_built_in() -> bool {
    // Looked at, never called: tonic's own would want a crypto provider.
    has_tls(|endpoint| endpoint.tls_config(Default::default()))
}

fn has_tls<E: Origin>(_: fn(Endpoint) -> Result<Endpoint, E>) -> bool {
    E::HAS_TLS
}
