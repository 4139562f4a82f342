//! The contract that callers program against.

use async_trait::async_trait;
use tokio::sync::watch;

use crate::{Error, Leadership};

/// One election, in which any number of candidates take part.
///
/// Object safe: `Box<dyn Election>` and `Arc<dyn Election>` work. The handle is
/// shared; several candidates may campaign through one handle at once, each
/// with its own place in the queue.
#[async_trait]
pub trait Election: Send + Sync + 'static {
    /// Waits until this candidate leads and returns the leadership.
    ///
    /// `value` is what observers see; any bytes, at most
    /// [`MAX_VALUE_BYTES`](crate::MAX_VALUE_BYTES). Candidates lead in the order
    /// in which they joined. A candidate whose lease is lost while it waits
    /// joins again at the back of the queue; it never wins with a lease that
    /// is gone. The leadership is returned only after a renewal that was sent
    /// after the win has been confirmed, so nearly the whole lease is left.
    ///
    /// A store that cannot be reached is no error: the campaign retries with
    /// backoff until it is dropped.
    ///
    /// # Errors
    ///
    /// [`ErrorKind::Invalid`](crate::ErrorKind::Invalid) when `value` is too
    /// long, the configuration is wrong, the lease that the store grants is
    /// too short for it, or the caller is outside a tokio runtime.
    /// [`ErrorKind::Denied`](crate::ErrorKind::Denied) when the store refuses
    /// the credentials. [`ErrorKind::Unavailable`](crate::ErrorKind::Unavailable)
    /// when the runtime is shut down meanwhile.
    ///
    /// # Panics
    ///
    /// On a tokio runtime without timers.
    ///
    /// # Cancel safety
    ///
    /// Cancel safe at every await: dropping the future withdraws the candidate
    /// at once where the store can be reached, and after one TTL at the latest
    /// where it cannot. A leadership won in that very moment is resigned.
    async fn campaign(&self, value: &[u8]) -> Result<Leadership, Error>;

    /// Follows who leads.
    ///
    /// The receiver shows the present leader first and always the newest;
    /// changes in between may be skipped. `None` means that nobody leads, or
    /// that the store has not answered yet. It never ends on an error of the
    /// store; it ends when the last handle of this election is dropped, and with
    /// the runtime on which the first one was made.
    ///
    /// What it shows is already past: it is for finding the leader, never for
    /// deciding whether one leads.
    ///
    /// # Panics
    ///
    /// Outside a tokio runtime, on the first call.
    fn observe(&self) -> watch::Receiver<Option<Leader>>;
}

/// Who leads, as the store shows it.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Leader {
    /// What the leader published when it campaigned, or proclaimed since.
    pub value: Vec<u8>,
    /// The fencing token of its leadership.
    pub token: u64,
    /// The scope of the token: tokens of different scopes are never compared.
    pub scope: String,
}

// ===== impl Leader =====

impl Leader {
    /// Describes a leader; for those who write a [`Store`](crate::Store).
    pub fn new(value: impl Into<Vec<u8>>, token: u64, scope: impl Into<String>) -> Self {
        Self {
            value: value.into(),
            token,
            scope: scope.into(),
        }
    }
}
