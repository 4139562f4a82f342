//! The plain count that the loop's result is compared with.
//!
//! One thread, one map, whole files from their first byte: it shares with the
//! loop only what a word is.

use std::fs::File;
use std::io::{self, Read};
use std::path::Path;

use super::counts::Counts;
use super::delta::DeltaError;
use super::merge::Entry;
use super::words::Words;

/// Counts the first `len` bytes of each file.
///
/// # Errors
///
/// The first file that cannot be read, or is shorter by now, with its path.
pub fn plain_count<'a>(
    files: impl IntoIterator<Item = (&'a Path, u64)>,
    mut go_on: impl FnMut() -> bool,
) -> io::Result<Counts> {
    let mut counts = Counts::default();
    let mut buffer = vec![0; 256 * 1024];
    for (path, len) in files {
        let named =
            |error: io::Error| io::Error::new(error.kind(), format!("{}: {error}", path.display()));
        let mut file = File::open(path).map_err(named)?.take(len);
        let (mut words, mut read) = (Words::default(), 0);
        loop {
            if !go_on() {
                return Err(io::ErrorKind::Interrupted.into());
            }
            let n = file.read(&mut buffer).map_err(named)?;
            if n == 0 {
                break;
            }
            read += n as u64;
            words.feed(&buffer[..n], |word| counts.add(word));
        }
        words.finish(|word| counts.add(word));
        if read < len {
            return Err(named(io::Error::new(
                io::ErrorKind::UnexpectedEof,
                "it became shorter during the run",
            )));
        }
    }
    Ok(counts)
}

/// The first word on which two results differ.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Difference {
    /// The word's bytes.
    pub word: Vec<u8>,
    /// Its count in the loop's totals, zero where it is missing.
    pub in_loop: u64,
    /// Its count in the plain result, zero where it is missing.
    pub in_plain: u64,
}

/// Compares the loop's totals, in rising order, with the plain count.
///
/// # Errors
///
/// Those of the totals.
pub fn compare(
    totals: impl IntoIterator<Item = Result<Entry, DeltaError>>,
    plain: &Counts,
) -> Result<Option<Difference>, DeltaError> {
    let mut expected = plain.sorted().into_iter().peekable();
    for entry in totals {
        let (word, count) = entry?;
        let found = match expected.peek() {
            Some((next, _)) if **next < *word => {
                return Ok(expected.next().map(|(word, count)| missing(word, count)));
            }
            Some((next, in_plain)) if **next == *word => *in_plain,
            _ => 0,
        };
        if found != count {
            return Ok(Some(Difference {
                word,
                in_loop: count,
                in_plain: found,
            }));
        }
        expected.next();
    }
    Ok(expected.next().map(|(word, count)| missing(word, count)))
}

fn missing(word: &[u8], in_plain: u64) -> Difference {
    Difference {
        word: word.to_vec(),
        in_loop: 0,
        in_plain,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn counts(words: &[&str]) -> Counts {
        let mut counts = Counts::default();
        for word in words {
            counts.add(word.as_bytes());
        }
        counts
    }

    fn difference(in_loop: &[&str], in_plain: &[&str]) -> Option<String> {
        let in_loop = counts(in_loop);
        let totals = in_loop
            .sorted()
            .into_iter()
            .map(|(word, count)| Ok((word.to_vec(), count)));
        compare(totals, &counts(in_plain))
            .unwrap()
            .map(|difference| String::from_utf8(difference.word).unwrap())
    }

    #[test]
    fn each_kind_of_difference_is_found() {
        let at = |word: &str| Some(word.to_owned());
        assert_eq!(difference(&["a", "b"], &["b", "a"]), None);
        assert_eq!(difference(&[], &[]), None);
        assert_eq!(difference(&["a"], &["a", "b"]), at("b"));
        assert_eq!(difference(&["b"], &["a", "b"]), at("a"));
        assert_eq!(difference(&["a", "b"], &["b"]), at("a"));
        assert_eq!(difference(&["a", "b"], &["a"]), at("b"));
        assert_eq!(difference(&["a", "a"], &["a"]), at("a"));
    }

    #[test]
    fn files_do_not_join_and_a_shorter_one_is_named() {
        let folder = tempfile::tempdir().unwrap();
        let (one, two) = (folder.path().join("one"), folder.path().join("two"));
        std::fs::write(&one, "ab").unwrap();
        std::fs::write(&two, "cd ab").unwrap();
        let found = plain_count([(&*one, 2), (&*two, 5)], || true).unwrap();
        assert_eq!(found.sorted(), [(&b"ab"[..], 2), (&b"cd"[..], 1)]);
        let cut = plain_count([(&*one, 1)], || true).unwrap();
        assert_eq!(cut.sorted(), [(&b"a"[..], 1)]);
        let error = plain_count([(&*one, 3)], || true).unwrap_err();
        assert!(error.to_string().contains("one"), "{error}");
    }
}
