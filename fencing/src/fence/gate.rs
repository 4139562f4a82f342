//! Counts the admissions of the one term that is open, without a lock.
//!
//! Admissions of two terms never live together, so one count is enough: it belongs to
//! the term that was opened last. A gate is *opened* for a token, and *closed* by a
//! higher one. It is opened anew only when it was closed and seen empty; opening and
//! closing are done under the fence's lock.
//!
//! Who enters counts itself first and looks second: from the count on nothing can be
//! opened for another token, so what it then reads belongs together. Where it does not
//! find its own token it leaves again.

use super::sync::{AtomicU64, AtomicUsize, Ordering};

/// The other bits are the count, which no memory can hold enough admissions to fill.
const OPEN: u64 = 1 << 63;
const WORD_LEN: usize = size_of::<u64>();
const MAX_WORDS: usize = 16;

/// The way in for those who come with the token that is being admitted.
#[derive(Debug)]
pub(crate) struct Gate {
    /// Open or closed, and how many are in.
    word: AtomicU64,
    number: AtomicU64,
    scope: Label,
}

/// Nobody was let in.
#[derive(Debug)]
pub(crate) struct Shut {
    /// Somebody waits for the gate to be empty, and this attempt was the last in it.
    pub(crate) is_last: bool,
}

/// A short text that is read while it may be written; one that mixes two texts is not
/// used, as its reader then finds the gate closed.
#[derive(Debug)]
struct Label {
    len: AtomicUsize,
    words: [AtomicU64; MAX_WORDS],
}

// ===== impl Gate =====

impl Gate {
    pub(crate) fn new() -> Self {
        Self {
            word: AtomicU64::new(0),
            number: AtomicU64::new(0),
            scope: Label::new(),
        }
    }

    /// Counts one more, if the gate is open for exactly this token.
    #[inline]
    pub(crate) fn enter(&self, scope: &str, number: u64) -> Result<(), Shut> {
        // A mere look, so that those who are refused rarely hold the count up.
        let is_open = self.word.load(Ordering::Relaxed) & OPEN != 0;
        if !is_open || self.number.load(Ordering::Relaxed) != number {
            return Err(Shut { is_last: false });
        }
        let before = self.word.fetch_add(1, Ordering::AcqRel);
        if before & OPEN != 0
            && self.number.load(Ordering::Relaxed) == number
            && self.scope.is(scope)
        {
            return Ok(());
        }
        let is_last = self.leave();
        Err(Shut { is_last })
    }

    /// Counts one less, and says whether the closed gate is empty by that: whoever
    /// waits for it must be told.
    #[inline]
    pub(crate) fn leave(&self) -> bool {
        self.word.fetch_sub(1, Ordering::AcqRel) == 1
    }

    /// Opens the gate for this token and counts one. Under the lock, and only when it
    /// was seen closed and empty.
    pub(crate) fn open(&self, scope: &str, number: u64) {
        self.number.store(number, Ordering::Relaxed);
        self.scope.set(scope);
        self.word.fetch_add(OPEN + 1, Ordering::AcqRel);
    }

    /// Counts one more at a gate that is known to be open. Under the lock.
    pub(crate) fn join(&self) {
        self.word.fetch_add(1, Ordering::AcqRel);
    }

    /// Lets nobody in any more. Under the lock.
    pub(crate) fn close(&self) {
        self.word.fetch_and(!OPEN, Ordering::AcqRel);
    }

    pub(crate) fn is_open(&self) -> bool {
        self.word.load(Ordering::Acquire) & OPEN != 0
    }

    /// How many are in, with those who are about to find that they may not.
    pub(crate) fn count(&self) -> u64 {
        self.word.load(Ordering::Acquire) & !OPEN
    }
}

// ===== impl Label =====

impl Label {
    fn new() -> Self {
        Self {
            len: AtomicUsize::new(0),
            words: std::array::from_fn(|_| AtomicU64::new(0)),
        }
    }

    fn set(&self, text: &str) {
        debug_assert!(text.len() <= MAX_WORDS * WORD_LEN, "scopes are validated");
        self.len.store(text.len(), Ordering::Relaxed);
        for (word, bytes) in self.words.iter().zip(text.as_bytes().chunks(WORD_LEN)) {
            word.store(padded(bytes), Ordering::Relaxed);
        }
    }

    #[inline]
    fn is(&self, text: &str) -> bool {
        let mut pairs = self.words.iter().zip(text.as_bytes().chunks(WORD_LEN));
        self.len.load(Ordering::Relaxed) == text.len()
            && pairs.all(|(word, bytes)| word.load(Ordering::Relaxed) == padded(bytes))
    }
}

fn padded(bytes: &[u8]) -> u64 {
    let mut word = [0; WORD_LEN];
    word[..bytes.len()].copy_from_slice(bytes);
    u64::from_le_bytes(word)
}
