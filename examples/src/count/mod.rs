//! Counting: words, sorted delta files, their merge, and the plain count to compare with.

mod counts;
mod delta;
mod merge;
mod plain;
mod words;

pub use counts::Counts;
pub use delta::{DeltaError, DeltaReader, DeltaSummary, DeltaWriter};
pub use merge::{Entry, Merge, merge_files};
pub use plain::{Difference, compare, plain_count};
pub use words::{MAX_WORD, Words, is_word_byte};
