//! The settings of a pool.

use std::sync::Arc;
use std::time::Duration;

use tokio::sync::Semaphore;

use crate::error::ConfigError;
use crate::policy::BackoffPolicy;

/// Longest scope, bytes.
pub(crate) const MAX_SCOPE_BYTES: usize = 128;

/// The settings of a [`Pool`](crate::Pool).
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct PoolConfig {
    /// The leader's term, above zero: workers refuse a lower one than they have seen.
    pub term: u64,
    /// Within what the term counts, at most 128 bytes; empty by default, which is a
    /// scope like any other.
    pub scope: String,
    /// Messages that wait for one worker, at most; default 256.
    pub outbox_len: usize,
    /// Bytes of messages that wait for one worker, at most; default 1 MiB.
    pub outbox_bytes: usize,
    /// Messages of one worker that wait for [`Events`](crate::Events), at most; default
    /// 256. With that many its stream is not read on, answers to rounds included; only
    /// what had arrived when its connection broke is taken in beyond it.
    pub inbox_len: usize,
    /// Bound of one attempt, from the name's look-up to the handshake; default 10 s.
    pub attempt_timeout: Duration,
    /// Delay after the first failed attempt, doubled with each further one; default 100 ms.
    pub backoff_base: Duration,
    /// Longest delay after a failed attempt; default 5 s.
    pub backoff_cap: Duration,
    /// Delays after failed attempts in place of base, cap and jitter; none by default.
    pub backoff_policy: Option<BackoffPolicy>,
    /// Delay after a refused attempt; default 10 s.
    pub blocked_retry: Duration,
    /// A session that lived this long, or brought a message, was healthy: the next
    /// attempt is made at once. Default 5 s.
    ///
    /// A message proves nothing where both this session and the one before it ended within
    /// a second.
    pub stable_after: Duration,
    /// Attempts at one time; default 64 in this pool.
    pub dial_limit: DialLimit,
    /// Seed of the jitter; random by default.
    pub seed: Option<u64>,
}

/// Bounds how many attempts run at one time; clones share the bound between pools.
#[derive(Clone, Debug)]
pub struct DialLimit {
    pub(crate) permits: Arc<Semaphore>,
}

// ===== impl PoolConfig =====

impl PoolConfig {
    /// Returns the defaults with this term.
    #[must_use]
    pub fn new(term: u64) -> Self {
        Self {
            term,
            scope: String::new(),
            outbox_len: 256,
            outbox_bytes: 1024 * 1024,
            inbox_len: 256,
            attempt_timeout: Duration::from_secs(10),
            backoff_base: Duration::from_millis(100),
            backoff_cap: Duration::from_secs(5),
            backoff_policy: None,
            blocked_retry: Duration::from_secs(10),
            stable_after: Duration::from_secs(5),
            dial_limit: DialLimit::new(64),
            seed: None,
        }
    }

    /// Sets within what the term counts, at most 128 bytes: which life of which store has
    /// handed it out. Empty by default.
    ///
    /// Terms of two scopes are never compared. A worker takes the scope of its acceptor and
    /// refuses all others, so that a store that was rebuilt, and counts from the beginning
    /// again, is a matter for an operator instead of terms that seem to be old.
    #[must_use]
    pub fn with_scope(mut self, scope: impl Into<String>) -> Self {
        self.scope = scope.into();
        self
    }

    /// Sets how many messages, and how many bytes of them, may wait for one worker.
    #[must_use]
    pub fn with_outbox(mut self, len: usize, bytes: usize) -> Self {
        self.outbox_len = len;
        self.outbox_bytes = bytes;
        self
    }

    /// Sets how many messages of one worker may wait for `Events`.
    #[must_use]
    pub fn with_inbox(mut self, len: usize) -> Self {
        self.inbox_len = len;
        self
    }

    /// Sets the bound of one attempt.
    #[must_use]
    pub fn with_attempt_timeout(mut self, timeout: Duration) -> Self {
        self.attempt_timeout = timeout;
        self
    }

    /// Sets the first and the longest delay after failed attempts.
    #[must_use]
    pub fn with_backoff(mut self, base: Duration, cap: Duration) -> Self {
        self.backoff_base = base;
        self.backoff_cap = cap;
        self
    }

    /// Sets the delays after failed attempts, in place of the doubling ones with jitter.
    ///
    /// Refused attempts still rest for `blocked_retry`, and attempts of one worker start
    /// at least 100 ms apart.
    #[must_use]
    pub fn with_backoff_policy(mut self, policy: BackoffPolicy) -> Self {
        self.backoff_policy = Some(policy);
        self
    }

    /// Sets the delay after a refused attempt.
    #[must_use]
    pub fn with_blocked_retry(mut self, delay: Duration) -> Self {
        self.blocked_retry = delay;
        self
    }

    /// Sets after what time a silent session counts as healthy.
    #[must_use]
    pub fn with_stable_after(mut self, time: Duration) -> Self {
        self.stable_after = time;
        self
    }

    /// Sets the bound of attempts at one time, which other pools may share.
    #[must_use]
    pub fn with_dial_limit(mut self, limit: DialLimit) -> Self {
        self.dial_limit = limit;
        self
    }

    /// Sets the seed of the jitter, so that a test repeats itself.
    #[must_use]
    pub fn with_seed(mut self, seed: u64) -> Self {
        self.seed = Some(seed);
        self
    }

    /// Checks that each setting is in its range.
    ///
    /// # Errors
    ///
    /// The first setting that is not.
    pub fn validate(&self) -> Result<(), ConfigError> {
        let scope_bytes = self.scope.len();
        let zero = [
            ("term", self.term == 0),
            ("outbox_len", self.outbox_len == 0),
            ("outbox_bytes", self.outbox_bytes == 0),
            ("inbox_len", self.inbox_len == 0),
            ("attempt_timeout", self.attempt_timeout.is_zero()),
            ("backoff_base", self.backoff_base.is_zero()),
            ("backoff_cap", self.backoff_cap.is_zero()),
            ("blocked_retry", self.blocked_retry.is_zero()),
        ];
        let text = if scope_bytes > MAX_SCOPE_BYTES {
            format!("the scope has {scope_bytes} bytes, more than {MAX_SCOPE_BYTES}")
        } else if let Some((name, _)) = zero.iter().find(|(_, is_zero)| *is_zero) {
            format!("{name} is zero")
        } else {
            return Ok(());
        };
        Err(ConfigError { text })
    }
}

impl Default for PoolConfig {
    /// Returns the defaults with term 1, for a controller that never changes.
    fn default() -> Self {
        Self::new(1)
    }
}

// ===== impl DialLimit =====

impl DialLimit {
    /// Allows this many attempts at one time, at least one.
    #[must_use]
    pub fn new(attempts: usize) -> Self {
        let permits = attempts.clamp(1, Semaphore::MAX_PERMITS);
        Self {
            permits: Arc::new(Semaphore::new(permits)),
        }
    }
}
