//! The stable name of a worker.

use std::borrow::Borrow;
use std::fmt;
use std::sync::Arc;

/// Names a worker for as long as it is in the pool, whatever its address.
///
/// Any text; it travels in the handshake, percent-encoded. Integers become their
/// decimal digits.
///
/// ```
/// use bidi_session::WorkerId;
/// assert_eq!(WorkerId::from(7_u64), WorkerId::from("7"));
/// ```
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct WorkerId(Arc<str>);

impl WorkerId {
    /// Returns the id as text.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// Says whether both are the same, most likely clones.
    pub(crate) fn is_same(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.0, &other.0) || self == other
    }
}

impl fmt::Debug for WorkerId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(self.as_str(), f)
    }
}

impl fmt::Display for WorkerId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self.as_str(), f)
    }
}

impl AsRef<str> for WorkerId {
    fn as_ref(&self) -> &str {
        self.as_str()
    }
}

impl Borrow<str> for WorkerId {
    fn borrow(&self) -> &str {
        self.as_str()
    }
}

impl From<&str> for WorkerId {
    fn from(text: &str) -> Self {
        Self(text.into())
    }
}

impl From<String> for WorkerId {
    fn from(text: String) -> Self {
        Self(text.into())
    }
}

impl From<&Self> for WorkerId {
    fn from(id: &Self) -> Self {
        id.clone()
    }
}

macro_rules! from_integer {
    ($($integer:ty),*) => {$(
        impl From<$integer> for WorkerId {
            fn from(number: $integer) -> Self {
                Self(number.to_string().into())
            }
        }
    )*};
}

from_integer!(u8, u16, u32, u64, usize, i32, i64);
