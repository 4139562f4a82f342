//! What the recipes share: an entry, and why a write is not in place. Copy it along.

use std::error::Error;

use fencing::Token;

/// Longest scope, in bytes: what [`fencing::Fence`] allows.
const MAX_SCOPE_LEN: usize = 128;

/// One effect, as the resource's history shows it.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Entry {
    /// The token under which it was written.
    pub token: Token,
    /// What tells this write from every other one.
    pub id: String,
    /// Any bytes.
    pub value: Vec<u8>,
}

/// A write, raise or reset that is not known to be in place.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum WriteError {
    /// Refused: a higher token was seen. Stop: a retry cannot help. After an unknown
    /// outcome an earlier attempt may have landed before the higher token came.
    #[error("token {token} is stale: the highest seen is {highest}")]
    #[non_exhaustive]
    Stale {
        /// The number that was refused.
        token: u64,
        /// The highest number seen in this scope.
        highest: u64,
    },
    /// Refused: the token cannot be compared with what was seen. A retry cannot help
    /// before an operator's reset.
    #[error(
        "token {token} is not of this resource's scope {scope:?}; if the store of the tokens was rebuilt, and no holder of an older token is left, an operator calls reset({:?})", token.scope()
    )]
    #[non_exhaustive]
    WrongScope {
        /// The token that was refused.
        token: Token,
        /// The scope whose tokens are admitted.
        scope: String,
    },
    /// Refused: fix the caller.
    #[error("the write is invalid: {problem}")]
    #[non_exhaustive]
    Invalid {
        /// What is wrong and what to do.
        problem: &'static str,
    },
    /// Nothing has changed, and nothing of this call is under way. Whether a retry can
    /// help is in the source.
    #[error("the resource failed, nothing has changed")]
    Failed(#[source] Box<dyn Error + Send + Sync>),
    /// It is in place, or not, or will be yet. Repeat the identical call until another
    /// answer comes, or give up the leadership: what is there shows nothing as long as
    /// an attempt may still arrive.
    #[error("the outcome is unknown: repeat the identical call")]
    Unknown(#[source] Box<dyn Error + Send + Sync>),
}

// ===== impl Entry =====

impl Entry {
    /// Puts an entry together from what a resource has stored.
    #[must_use]
    pub fn new(token: Token, id: impl Into<String>, value: impl Into<Vec<u8>>) -> Self {
        let (id, value) = (id.into(), value.into());
        Self { token, id, value }
    }

    /// Scope, number, id and value, each behind its length: 4 bytes, big-endian.
    #[must_use]
    pub fn to_bytes(&self) -> Vec<u8> {
        let number = self.token.number().to_be_bytes();
        let scope = self.token.scope().as_bytes();
        let parts = [scope, &number, self.id.as_bytes(), &self.value];
        let mut bytes = Vec::new();
        for part in parts {
            let len = u32::try_from(part.len()).expect("an entry is far below 4 GiB");
            bytes.extend_from_slice(&len.to_be_bytes());
            bytes.extend_from_slice(part);
        }
        bytes
    }

    /// Reads entries that follow each other; `None` where the bytes are not of entries.
    #[must_use]
    pub fn read_all(mut bytes: &[u8]) -> Option<Vec<Self>> {
        let mut entries = Vec::new();
        while !bytes.is_empty() {
            let mut part = || {
                let (len, rest) = bytes.split_first_chunk::<4>()?;
                let (part, rest) = rest.split_at_checked(u32::from_be_bytes(*len) as usize)?;
                bytes = rest;
                Some(part)
            };
            let scope = str::from_utf8(part()?).ok()?;
            let number = u64::from_be_bytes(part()?.try_into().ok()?);
            let id = str::from_utf8(part()?).ok()?;
            entries.push(Self::new(Token::scoped(scope, number), id, part()?));
        }
        Some(entries)
    }
}

// ===== impl WriteError =====

impl WriteError {
    /// An argument is wrong.
    #[must_use]
    pub fn invalid(problem: &'static str) -> Self {
        Self::Invalid { problem }
    }

    /// The id names another write, which stays.
    #[must_use]
    pub fn reused() -> Self {
        Self::invalid("another value was written under this id: name each write once")
    }
}

/// Refuses what no resource admits: number zero, a scope that is too long.
///
/// # Errors
///
/// [`WriteError::Invalid`].
pub fn check(token: &Token) -> Result<(), WriteError> {
    if token.number() == 0 {
        return Err(WriteError::invalid("token zero stands for no token"));
    }
    check_scope(token.scope())
}

/// Refuses a scope that is too long.
///
/// # Errors
///
/// [`WriteError::Invalid`].
pub(crate) fn check_scope(scope: &str) -> Result<(), WriteError> {
    if scope.len() > MAX_SCOPE_LEN {
        return Err(WriteError::invalid("the scope has more than 128 bytes"));
    }
    Ok(())
}

/// Says why a resource that has seen `highest` in `scope` does not admit `token`.
#[must_use]
pub fn refusal(token: &Token, scope: &str, highest: u64) -> WriteError {
    if token.scope() == scope {
        let token = token.number();
        return WriteError::Stale { token, highest };
    }
    WriteError::WrongScope {
        token: token.clone(),
        scope: scope.to_owned(),
    }
}
