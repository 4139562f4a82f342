//! What a word is, independent of how the bytes arrive.
//!
//! A word is a run of `[A-Za-z0-9_]` or bytes of 0x80 and above, cut at
//! [`MAX_WORD`] bytes; the rest of a longer run is skipped.

/// Longest word, in bytes.
pub const MAX_WORD: usize = 64;

/// Says whether `byte` belongs to a word.
#[must_use]
pub const fn is_word_byte(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || byte == b'_' || byte >= 0x80
}

/// Cuts a stream of chunks into words.
///
/// Its whole state is the word that the last chunk left unfinished, so that a
/// reader can stop at any byte and another can go on from there.
#[derive(Clone, Debug, Default)]
pub struct Words {
    /// The begun word, at most [`MAX_WORD`] bytes; once full, the run's other bytes are skipped.
    partial: Vec<u8>,
}

impl Words {
    /// Goes on after `partial`, which [`partial`](Self::partial) gave; cut to [`MAX_WORD`] bytes.
    #[must_use]
    pub fn resume(partial: &[u8]) -> Self {
        Self {
            partial: partial[..partial.len().min(MAX_WORD)].to_vec(),
        }
    }

    /// Hands each word that ends within `chunk` to `emit`.
    pub fn feed(&mut self, chunk: &[u8], mut emit: impl FnMut(&[u8])) {
        let mut rest = chunk;
        if !self.partial.is_empty() {
            let run = run_len(rest);
            self.keep(&rest[..run]);
            if run == rest.len() {
                return;
            }
            rest = &rest[run..];
            self.finish(&mut emit);
        }
        while let Some(start) = rest.iter().position(|&byte| is_word_byte(byte)) {
            rest = &rest[start..];
            let run = run_len(rest);
            if run == rest.len() {
                self.keep(rest);
                return;
            }
            emit(&rest[..run.min(MAX_WORD)]);
            rest = &rest[run..];
        }
    }

    /// Hands the unfinished word, if there is one, to `emit`: its text has ended.
    pub fn finish(&mut self, mut emit: impl FnMut(&[u8])) {
        if !self.partial.is_empty() {
            emit(&self.partial);
            self.partial.clear();
        }
    }

    /// Returns the unfinished word, at most [`MAX_WORD`] bytes.
    #[must_use]
    pub fn partial(&self) -> &[u8] {
        &self.partial
    }

    fn keep(&mut self, bytes: &[u8]) {
        let room = MAX_WORD - self.partial.len();
        self.partial
            .extend_from_slice(&bytes[..bytes.len().min(room)]);
    }
}

fn run_len(bytes: &[u8]) -> usize {
    bytes
        .iter()
        .position(|&byte| !is_word_byte(byte))
        .unwrap_or(bytes.len())
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn words(chunks: &[&[u8]]) -> Vec<Vec<u8>> {
        let (mut words, mut found) = (Words::default(), Vec::new());
        for chunk in chunks {
            words.feed(chunk, |word| found.push(word.to_vec()));
        }
        words.finish(|word| found.push(word.to_vec()));
        found
    }

    #[test]
    fn punctuation_separates_and_high_bytes_belong() {
        assert_eq!(
            words(&["a_1, b-c \u{e4}!".as_bytes()]),
            [b"a_1".to_vec(), b"b".into(), b"c".into(), "\u{e4}".into()]
        );
        assert_eq!(words(&[b" \n\0"]), Vec::<Vec<u8>>::new());
    }

    #[test]
    fn a_long_run_is_one_word_of_64_bytes() {
        let long = vec![b'x'; 1000];
        let found = words(&[&long, b" y"]);
        assert_eq!(found, [vec![b'x'; MAX_WORD], b"y".to_vec()]);
    }

    proptest! {
        /// Bytes are drawn so that long runs and separators are both common.
        #[test]
        fn chunks_and_a_handover_of_the_state_change_nothing(
            text in proptest::collection::vec(prop_oneof![8 => Just(b'w'), 1 => Just(b' '), 1 => any::<u8>()], 0..400),
            cuts in proptest::collection::vec(0_usize..400, 0..8),
        ) {
            let mut cuts: Vec<usize> = cuts.into_iter().map(|cut| cut.min(text.len())).collect();
            cuts.push(text.len());
            cuts.sort_unstable();
            let (mut found, mut words, mut from) = (Vec::new(), Words::default(), 0);
            for cut in cuts {
                words.feed(&text[from..cut], |word| found.push(word.to_vec()));
                words = Words::resume(words.partial());
                from = cut;
            }
            words.finish(|word| found.push(word.to_vec()));
            prop_assert_eq!(found, self::words(&[&text]));
        }
    }
}
