//! The resource's half: a verifier that admits tokens in rising order only.

mod admission;
mod desk;
mod error;
mod gate;
mod lock;
mod mark;
mod state;
mod store;
mod worker;

use std::fmt;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

pub use admission::Admission;
pub use error::{AdmitError, OpenError, ResetError, StaleToken, StorageError, WrongScope};

use crate::blocking::block_on;
use crate::signal::hear;
use crate::token::{Scope, Token};
use desk::{Call, Desk};
use state::State;
use store::Store;

/// What the gate is made of; a model of it is made of other ones.
mod sync {
    pub(super) use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
}

const DEFAULT_DRAIN_WAIT: Duration = Duration::from_secs(5);

/// Admits the effects of the highest token seen, and refuses those of lower ones.
///
/// Once [`admit`](Self::admit) has returned for a token, no effect of a lower token
/// is under way and none will start, provided that every effect is applied while
/// its [`Admission`] is held. This holds however late a request arrives, whatever
/// its sender believes and whatever its clock says.
///
/// [`open`](Self::open) makes a fence whose mark (the highest token seen) survives a
/// crash: what was admitted once keeps lower tokens out after a restart. A fence
/// made by [`new`](Self::new) **forgets**: after a restart it admits any token, so
/// use it only where a restart of the process also clears what it guards.
///
/// Clones share one mark. A fence admits tokens of one scope: that of the first
/// token, or of [`reset`](Self::reset). No async runtime is needed.
#[derive(Clone)]
pub struct Fence {
    handle: Arc<Handle>,
    drain_wait: Duration,
}

/// Closes the fence when its last clone and its last admission are gone.
#[derive(Debug)]
struct Handle {
    desk: Arc<Desk>,
}

// ===== impl Fence =====

impl Fence {
    /// Makes a fence in memory, which forgets what it saw when the process ends.
    #[must_use]
    pub fn new() -> Self {
        Self::with_desk(Desk::new(State::forgetful(), None))
    }

    /// Opens a fence whose mark is stored at `path`.
    ///
    /// A missing file starts without a mark; its folder must exist and be writable.
    /// Beside it lie `<path>.lock` and, during a write, `<path>.tmp`, so no mark has such
    /// a name; do not remove them while the fence is open. The file is locked until the
    /// last clone and the last [`Admission`] of this fence are dropped, and until a write
    /// that then still runs has ended. Use a local file system: on network ones the lock
    /// may not hold.
    ///
    /// One path for one mark: by a hard link of the file it is another fence. After a
    /// `fork` the fence stays the parent's: in the child it stores nothing, so that no
    /// higher token is admitted there.
    ///
    /// Reads and writes the file on the calling thread.
    ///
    /// # Errors
    ///
    /// [`OpenError::Locked`] when another fence has the file open, in this process
    /// too; [`OpenError::Damaged`] when it is not what a fence wrote (it is never
    /// taken for an empty one); [`OpenError::BadPath`] when the path cannot be one of
    /// a mark; [`OpenError::Io`] when the system refuses.
    pub fn open(path: impl AsRef<Path>) -> Result<Self, OpenError> {
        let (store, mark) = Store::open(path.as_ref())?;
        Ok(Self::with_desk(Desk::new(
            State::durable(mark),
            Some(store),
        )))
    }

    /// Sets how long [`admit`](Self::admit) of this handle waits for the effects of
    /// lower tokens to end. Default 5 s.
    #[must_use]
    pub fn with_drain_wait(mut self, drain_wait: Duration) -> Self {
        self.drain_wait = drain_wait;
        self
    }

    /// Admits the effect that `token` comes with, and keeps lower ones out.
    ///
    /// Ready at once when the token is the highest seen, is stored, and no effect of
    /// a lower one is under way. A higher token is the highest from the first poll
    /// on: lower ones are refused, and their admissions are
    /// [revoked](Admission::revoked). Then it is stored and the lower admissions are
    /// waited for. Hold the admission until the effect is in place.
    ///
    /// # Errors
    ///
    /// [`AdmitError::Stale`] when a higher token was seen, [`AdmitError::WrongScope`]
    /// and [`AdmitError::Invalid`] for tokens this fence cannot judge,
    /// [`AdmitError::Busy`] when lower admissions outlast the
    /// [wait](Self::with_drain_wait) (try again, which waits again), and
    /// [`AdmitError::Storage`] when the mark could not be stored: nothing is admitted
    /// until it could, and each further call tries.
    ///
    /// # Cancel safety
    ///
    /// Dropping the future admits nothing and undoes nothing: a higher token stays
    /// the highest. There is no limit on the time a disk takes; put a timeout around
    /// the call if that matters.
    pub async fn admit<T: Into<Token>>(&self, token: T) -> Result<Admission, AdmitError> {
        let token = token.into();
        if !self.handle.desk.enter(&token) {
            self.wait_for(&token).await?;
        }
        Ok(Admission::new(Arc::clone(&self.handle), token))
    }

    /// Like [`admit`](Self::admit), for code without async: blocks the thread.
    ///
    /// # Errors
    ///
    /// Those of [`admit`](Self::admit).
    pub fn admit_blocking<T: Into<Token>>(&self, token: T) -> Result<Admission, AdmitError> {
        block_on(self.admit(token))
    }

    /// Returns the number of the highest token seen in the present scope, zero before
    /// the first.
    ///
    /// It was seen, which is not to say that it is stored yet or was admitted. Tokens
    /// from one above it on are admissible.
    #[must_use]
    pub fn highest(&self) -> u64 {
        self.handle.desk.mark().number
    }

    /// Returns the scope whose tokens are admitted, `None` before the first token.
    #[must_use]
    pub fn scope(&self) -> Option<String> {
        let mark = self.handle.desk.mark();
        mark.scope.map(|scope| scope.as_str().to_owned())
    }

    /// Forgets the mark and admits tokens of `scope` from here on.
    ///
    /// The operator's way out after the store that hands out the tokens was rebuilt
    /// or restored, so that its numbers start low again. Wrong while any holder of a
    /// token of before may still send: with an equal scope such a token is admitted
    /// again. Present admissions are revoked, and the next [`admit`](Self::admit)
    /// waits for them.
    ///
    /// Blocks the calling thread until the new scope is stored.
    ///
    /// # Errors
    ///
    /// [`ResetError::Invalid`] when the scope has more than 128 bytes; nothing has
    /// changed then. [`ResetError::Storage`] when it could not be stored: nothing is
    /// admitted until it could, and after a restart the old mark may hold again. Call
    /// it again.
    pub fn reset(&self, scope: &str) -> Result<(), ResetError> {
        let scope = Scope::new(scope);
        scope.validate()?;
        let desk = &self.handle.desk;
        desk.reset(scope);
        block_on(async {
            let mut call = Call::new(desk);
            loop {
                let changed = desk.changed.notified();
                if let Some(outcome) = call.store() {
                    return outcome.map_err(ResetError::Storage);
                }
                hear(changed).await;
            }
        })
    }

    /// Waits until `token` is counted as admitted.
    async fn wait_for(&self, token: &Token) -> Result<(), AdmitError> {
        let desk = &self.handle.desk;
        let mut call = Call::new(desk);
        loop {
            // Listens before it looks, or it would miss what happens in between.
            let changed = desk.changed.notified();
            if let Some(outcome) = call.admit(token, self.drain_wait) {
                return outcome;
            }
            hear(changed).await;
        }
    }

    fn with_desk(desk: Desk) -> Self {
        let desk = Arc::new(desk);
        Self {
            handle: Arc::new(Handle { desk }),
            drain_wait: DEFAULT_DRAIN_WAIT,
        }
    }
}

impl Default for Fence {
    /// A fence in memory, like [`Fence::new`].
    fn default() -> Self {
        Self::new()
    }
}

impl fmt::Debug for Fence {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mark = self.handle.desk.mark();
        f.debug_struct("Fence")
            .field("scope", &mark.scope)
            .field("highest", &mark.number)
            .finish_non_exhaustive()
    }
}

// ===== impl Handle =====

impl Drop for Handle {
    fn drop(&mut self) {
        self.desk.close();
    }
}
