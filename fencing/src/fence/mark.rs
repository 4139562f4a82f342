//! The mark and its bytes in a file.
//!
//! The file is text of four lines, so that an operator can read it:
//!
//! ```text
//! fencing mark 1
//! token 42
//! scope 9 a3f0/meta
//! crc32 006dfcc2
//! ```
//!
//! `scope` gives the length in bytes and the text; `scope -` says that no token was
//! seen yet, so that the first one decides. Token 0 says that none was seen in this
//! scope. The checksum covers what is above its line. Only the exact bytes that
//! [`Mark::encode`] writes are read: anything else is damage, never a lower mark.

use crate::token::Scope;

const TITLE: &str = "fencing mark 1";

/// Length of the longest file that [`Mark::encode`] writes, rounded up.
pub(super) const MAX_FILE_LEN: u64 = 512;

/// The highest token seen.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Mark {
    /// None before the first token: that one decides.
    pub(super) scope: Option<Scope>,
    /// Zero before the first token.
    pub(super) number: u64,
}

// ===== impl Mark =====

impl Mark {
    pub(super) fn encode(&self) -> Vec<u8> {
        let scope = match &self.scope {
            None => "-".to_owned(),
            Some(scope) => format!("{} {}", scope.as_str().len(), scope.as_str()),
        };
        let body = format!("{TITLE}\ntoken {}\nscope {scope}\n", self.number);
        let sum = crc32fast::hash(body.as_bytes());
        format!("{body}crc32 {sum:08x}\n").into_bytes()
    }

    /// Reads what [`encode`](Self::encode) wrote, or nothing.
    pub(super) fn decode(bytes: &[u8]) -> Option<Self> {
        let text = std::str::from_utf8(bytes).ok()?;
        let rest = text.strip_prefix(TITLE)?.strip_prefix("\ntoken ")?;
        let (number, rest) = rest.split_once('\n')?;
        let rest = rest.strip_prefix("scope ")?;
        // From the end, for a scope may hold any text.
        let (scope, _) = rest.rsplit_once("\ncrc32 ")?;
        let scope = scope.split_once(' ').map(|(_, scope)| Scope::new(scope));
        let mark = Self {
            scope,
            number: number.parse().ok()?,
        };
        let is_valid = mark
            .scope
            .as_ref()
            .is_none_or(|scope| scope.validate().is_ok());
        (is_valid && mark.encode() == bytes).then_some(mark)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn mark(scope: Option<&str>, number: u64) -> Mark {
        let scope = scope.map(Scope::new);
        Mark { scope, number }
    }

    #[test]
    fn the_format_is_the_documented_one() {
        let bytes = mark(Some("a3f0/meta"), 42).encode();
        let text = String::from_utf8(bytes).unwrap();
        assert_eq!(
            text,
            "fencing mark 1\ntoken 42\nscope 9 a3f0/meta\ncrc32 006dfcc2\n"
        );
    }

    #[test]
    fn every_shorter_and_every_longer_file_is_damage() {
        let bytes = mark(Some("a"), 10).encode();
        for len in 0..bytes.len() {
            assert_eq!(Mark::decode(&bytes[..len]), None, "{len} bytes");
        }
        let longer = [&bytes[..], b"\n"].concat();
        assert_eq!(Mark::decode(&longer), None);
    }

    #[test]
    fn every_flipped_bit_is_damage() {
        let bytes = mark(Some("a"), 10).encode();
        for bit in 0..bytes.len() * 8 {
            let mut damaged = bytes.clone();
            damaged[bit / 8] ^= 1 << (bit % 8);
            assert_eq!(Mark::decode(&damaged), None, "bit {bit}");
        }
    }

    #[test]
    fn a_file_of_zeros_or_other_text_is_damage() {
        for bytes in [
            &[0; 64][..],
            b"10",
            b"",
            b"\n",
            b"fencing mark 2\ntoken 1\n",
        ] {
            assert_eq!(Mark::decode(bytes), None);
        }
        // A right checksum over other than canonical text.
        for body in [
            "token 010\nscope -",
            "token +1\nscope -",
            "token 1\nscope 2 a",
        ] {
            let body = format!("{TITLE}\n{body}\n");
            let text = format!("{body}crc32 {:08x}\n", crc32fast::hash(body.as_bytes()));
            assert_eq!(Mark::decode(text.as_bytes()), None, "{text}");
        }
    }

    proptest! {
        #[test]
        fn what_was_written_is_read(scope in proptest::option::of(".{0,40}|\n|-| "), number: u64) {
            let scope = scope.filter(|scope| scope.len() <= 128);
            let mark = mark(scope.as_deref(), number);
            let bytes = mark.encode();
            prop_assert!(bytes.len() as u64 <= MAX_FILE_LEN);
            prop_assert_eq!(Mark::decode(&bytes), Some(mark));
        }

        #[test]
        fn garbage_is_damage(bytes in proptest::collection::vec(any::<u8>(), 0..200)) {
            prop_assert_eq!(Mark::decode(&bytes), None);
        }
    }
}
