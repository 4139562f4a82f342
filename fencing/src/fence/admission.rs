//! The right to apply one effect.

use std::fmt;
use std::future::Future;
use std::sync::Arc;

use crate::fence::Handle;
use crate::token::Token;

/// The right to apply the effect that a token came with.
///
/// Hold it until the effect is in place: a higher token is admitted only when all
/// admissions of lower ones are dropped. Code that applies effects should ask for
/// an `&Admission`, and code that queues them should queue it too.
#[must_use = "the effect is admitted only while this is held"]
pub struct Admission {
    handle: Arc<Handle>,
    token: Token,
}

// ===== impl Admission =====

impl Admission {
    /// For an admission that was counted.
    #[inline]
    pub(super) fn new(handle: Arc<Handle>, token: Token) -> Self {
        Self { handle, token }
    }

    /// Returns the token that was admitted.
    #[must_use]
    pub fn token(&self) -> &Token {
        &self.token
    }

    /// Says whether a higher token waits for this admission to end.
    ///
    /// The effect may still be applied, since nothing of the higher token starts
    /// before this is dropped; a long one should stop.
    #[must_use]
    pub fn is_revoked(&self) -> bool {
        self.handle.desk.is_revoked()
    }

    /// Waits until a higher token waits for this admission to end.
    ///
    /// # Cancel safety
    ///
    /// Cancel safe: nothing is consumed.
    pub fn revoked(&self) -> impl Future<Output = ()> + Send + use<> {
        self.handle.desk.revoked().wait()
    }
}

impl Drop for Admission {
    #[inline]
    fn drop(&mut self) {
        self.handle.desk.release();
    }
}

impl fmt::Debug for Admission {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Admission")
            .field("token", &self.token)
            .field("is_revoked", &self.is_revoked())
            .finish_non_exhaustive()
    }
}
