//! The number that tells an old holder from a new one.

use std::cmp::Ordering;
use std::fmt;
use std::sync::Arc;

/// Length of the longest scope, in bytes.
pub(crate) const MAX_SCOPE_LEN: usize = 128;

/// A fencing token: a number that rises with every leadership, within a scope.
///
/// The scope names what hands the numbers out, say one life of one store. Numbers
/// of different scopes are never compared: a store that was rebuilt starts low
/// again. A plain number is a token of the empty scope, which is a scope like any
/// other. A [`Fence`](crate::Fence) refuses number zero and scopes above 128 bytes.
///
/// # Examples
///
/// ```
/// use fencing::Token;
///
/// let plain = Token::from(7);
/// assert_eq!((plain.scope(), plain.number()), ("", 7));
///
/// let scoped = Token::scoped("a3f0/meta", 7);
/// assert!(scoped < Token::scoped("a3f0/meta", 8));
/// assert_eq!(scoped.partial_cmp(&plain), None);
/// ```
#[derive(Clone, PartialEq, Eq, Hash)]
pub struct Token {
    scope: Scope,
    number: u64,
}

/// A token that no fence admits, whatever it has seen.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum InvalidToken {
    /// The number is zero, which stands for no token.
    #[error("token zero stands for no token")]
    Zero,
    /// The scope is too long.
    #[error("the scope has {len} bytes, at most {MAX_SCOPE_LEN} are allowed")]
    #[non_exhaustive]
    ScopeTooLong {
        /// Length of the scope, in bytes.
        len: usize,
    },
}

/// Text of a scope; none for the empty one, so that plain numbers cost nothing.
#[derive(Clone, PartialEq, Eq, Hash)]
pub(crate) struct Scope(Option<Arc<str>>);

// ===== impl Token =====

impl Token {
    /// Makes a token of a scope: any text of at most 128 bytes.
    #[must_use]
    pub fn scoped(scope: impl AsRef<str>, number: u64) -> Self {
        Self {
            scope: Scope::new(scope.as_ref()),
            number,
        }
    }

    /// Returns the scope, empty for a plain number.
    #[must_use]
    #[inline]
    pub fn scope(&self) -> &str {
        self.scope.as_str()
    }

    /// Returns the number.
    #[must_use]
    #[inline]
    pub fn number(&self) -> u64 {
        self.number
    }

    pub(crate) fn shared_scope(&self) -> &Scope {
        &self.scope
    }

    pub(crate) fn validate(&self) -> Result<(), InvalidToken> {
        self.scope.validate()?;
        if self.number == 0 {
            return Err(InvalidToken::Zero);
        }
        Ok(())
    }
}

impl From<u64> for Token {
    fn from(number: u64) -> Self {
        Self {
            scope: Scope(None),
            number,
        }
    }
}

impl From<&Self> for Token {
    fn from(token: &Self) -> Self {
        token.clone()
    }
}

impl PartialOrd for Token {
    /// Compares the numbers of one scope; tokens of two scopes have no order.
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        (self.scope == other.scope).then(|| self.number.cmp(&other.number))
    }
}

impl fmt::Display for Token {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.scope() {
            "" => write!(f, "{}", self.number),
            scope => write!(f, "{} of scope {scope:?}", self.number),
        }
    }
}

impl fmt::Debug for Token {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Token({self})")
    }
}

// ===== impl Scope =====

impl Scope {
    pub(crate) fn new(scope: &str) -> Self {
        Self((!scope.is_empty()).then(|| Arc::from(scope)))
    }

    #[inline]
    pub(crate) fn as_str(&self) -> &str {
        self.0.as_deref().unwrap_or_default()
    }

    pub(crate) fn validate(&self) -> Result<(), InvalidToken> {
        match self.as_str().len() {
            0..=MAX_SCOPE_LEN => Ok(()),
            len => Err(InvalidToken::ScopeTooLong { len }),
        }
    }
}

impl fmt::Debug for Scope {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(self.as_str(), f)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tokens_compare_only_within_a_scope() {
        assert!(Token::from(1) < Token::from(2));
        assert!(Token::scoped("a", 1) < Token::scoped("a", 2));
        assert_eq!(
            Token::scoped("a", 1).partial_cmp(&Token::scoped("b", 2)),
            None
        );
        assert_eq!(Token::scoped("", 3), Token::from(3));
    }

    #[test]
    fn zero_and_long_scopes_are_invalid() {
        let table = [
            (Token::from(0), Err(InvalidToken::Zero)),
            (Token::from(1), Ok(())),
            (Token::from(u64::MAX), Ok(())),
            (Token::scoped("s".repeat(128), 1), Ok(())),
            (
                Token::scoped("s".repeat(129), 1),
                Err(InvalidToken::ScopeTooLong { len: 129 }),
            ),
            (
                Token::scoped("é".repeat(65), 1),
                Err(InvalidToken::ScopeTooLong { len: 130 }),
            ),
        ];
        for (token, expected) in table {
            assert_eq!(token.validate(), expected, "{token}");
        }
    }
}
