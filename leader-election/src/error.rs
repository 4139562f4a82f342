//! The crate's error: what went wrong and what to do about it.

use std::{borrow::Cow, fmt};

type Source = Box<dyn std::error::Error + Send + Sync>;

/// Why an operation failed; [`kind`](Self::kind) says what to do.
#[derive(Debug)]
pub struct Error {
    kind: ErrorKind,
    message: Cow<'static, str>,
    source: Option<Source>,
}

/// What the caller should do about an [`Error`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum ErrorKind {
    /// The store cannot be reached or did not answer in time. The outcome of
    /// the operation is unknown; try again.
    Unavailable,
    /// The candidate's place is gone. Stop work, then campaign again.
    Lost,
    /// An argument or the configuration is wrong. Fix it; a retry cannot help.
    Invalid,
    /// The store refuses the credentials. Fix them; a retry cannot help.
    Denied,
}

// ===== impl Error =====

impl Error {
    /// Creates an error; `message` is lower case and has no full stop.
    ///
    /// For those who write a [`Store`](crate::Store).
    pub fn new(kind: ErrorKind, message: impl Into<Cow<'static, str>>) -> Self {
        Self {
            kind,
            message: message.into(),
            source: None,
        }
    }

    /// Adds the cause.
    #[must_use]
    pub fn with_source(mut self, source: impl Into<Source>) -> Self {
        self.source = Some(source.into());
        self
    }

    /// Returns what the caller should do.
    #[must_use]
    pub fn kind(&self) -> ErrorKind {
        self.kind
    }

    /// Tells whether repeating the same call can never help.
    pub(crate) fn is_final(&self) -> bool {
        matches!(self.kind, ErrorKind::Invalid | ErrorKind::Denied)
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message)
    }
}

impl std::error::Error for Error {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        self.source.as_deref().map(|source| source as _)
    }
}

#[cfg(test)]
mod tests {
    use std::error::Error as _;

    use super::*;

    #[test]
    fn text_is_this_level_only_and_the_cause_is_the_source() {
        let error = Error::new(ErrorKind::Unavailable, "cannot renew").with_source("socket closed");
        assert_eq!(error.to_string(), "cannot renew");
        assert_eq!(
            error.source().map(ToString::to_string).as_deref(),
            Some("socket closed")
        );
        assert_eq!(error.kind(), ErrorKind::Unavailable);
    }
}
