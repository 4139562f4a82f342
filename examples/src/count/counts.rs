//! Counts per word, in memory.

use std::collections::HashMap;

/// How often each word was seen.
#[derive(Clone, Debug, Default)]
pub struct Counts {
    map: HashMap<Box<[u8]>, u64>,
}

impl Counts {
    /// Counts `word` once more.
    pub fn add(&mut self, word: &[u8]) {
        if let Some(count) = self.map.get_mut(word) {
            *count += 1;
        } else {
            self.map.insert(word.into(), 1);
        }
    }

    /// Returns the number of different words.
    #[must_use]
    pub fn len(&self) -> usize {
        self.map.len()
    }

    /// Says whether nothing was counted.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.map.is_empty()
    }

    /// Forgets everything.
    pub fn clear(&mut self) {
        self.map.clear();
    }

    /// Returns the words in the order of their bytes, each with its count.
    #[must_use]
    pub fn sorted(&self) -> Vec<(&[u8], u64)> {
        let mut all: Vec<(&[u8], u64)> = self
            .map
            .iter()
            .map(|(word, count)| (&**word, *count))
            .collect();
        all.sort_unstable();
        all
    }
}
