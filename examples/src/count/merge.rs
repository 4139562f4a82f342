//! The k-way merge of delta files into totals.

use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::fs::File;
use std::io::{BufReader, BufWriter};
use std::path::{Path, PathBuf};

use super::delta::{DeltaError, DeltaReader, DeltaWriter};

/// Files that are open at once; more are merged in several passes.
const FAN_IN: usize = 64;

/// Bytes of buffer for each open file.
const BUFFER: usize = 16 * 1024;

/// A word and how often it was seen.
pub type Entry = (Vec<u8>, u64);

/// Yields each word once, in rising order, with its total.
#[derive(Debug)]
pub struct Merge {
    paths: Vec<PathBuf>,
    readers: Vec<DeltaReader<BufReader<File>>>,
    /// The next word of each reader that has one.
    heads: BinaryHeap<Reverse<(Vec<u8>, usize, u64)>>,
    failed: bool,
}

impl Merge {
    /// Opens at most [`FAN_IN`] files.
    fn open(paths: &[PathBuf]) -> Result<Self, DeltaError> {
        let mut merge = Self {
            paths: paths.to_vec(),
            readers: Vec::with_capacity(paths.len()),
            heads: BinaryHeap::new(),
            failed: false,
        };
        for path in paths {
            let named = |error: DeltaError| error.at(path);
            let file = File::open(path).map_err(|error| named(error.into()))?;
            let file = BufReader::with_capacity(BUFFER, file);
            merge.readers.push(DeltaReader::new(file).map_err(named)?);
            merge.advance(merge.readers.len() - 1, Vec::new())?;
        }
        Ok(merge)
    }

    fn advance(&mut self, reader: usize, mut word: Vec<u8>) -> Result<(), DeltaError> {
        let next = self.readers[reader].next_into(&mut word);
        if let Some(count) = next.map_err(|error| error.at(&self.paths[reader]))? {
            self.heads.push(Reverse((word, reader, count)));
        }
        Ok(())
    }

    fn step(&mut self) -> Result<Option<Entry>, DeltaError> {
        let Some(Reverse((word, reader, mut total))) = self.heads.pop() else {
            return Ok(None);
        };
        self.advance(reader, Vec::with_capacity(word.len()))?;
        while let Some(Reverse((next, ..))) = self.heads.peek() {
            if *next != word {
                break;
            }
            if let Some(Reverse((buffer, reader, count))) = self.heads.pop() {
                total += count;
                self.advance(reader, buffer)?;
            }
        }
        Ok(Some((word, total)))
    }
}

impl Iterator for Merge {
    type Item = Result<Entry, DeltaError>;

    fn next(&mut self) -> Option<Self::Item> {
        if self.failed {
            return None;
        }
        let item = self.step().transpose();
        self.failed = matches!(item, Some(Err(_)));
        item
    }
}

/// Merges delta files; intermediate ones go to `scratch`, which the caller removes.
///
/// # Errors
///
/// [`DeltaError`] for a file that is missing, unreadable or damaged, and for
/// `scratch` where it cannot be written.
pub fn merge_files(mut paths: Vec<PathBuf>, scratch: &Path) -> Result<Merge, DeltaError> {
    let mut made = 0_u64;
    while paths.len() > FAN_IN {
        let mut fewer = Vec::with_capacity(paths.len() / FAN_IN + 1);
        for group in paths.chunks(FAN_IN) {
            let path = scratch.join(format!("merge-{made}"));
            made += 1;
            write_merged(group, &path)?;
            fewer.push(path);
        }
        paths = fewer;
    }
    Merge::open(&paths)
}

fn write_merged(group: &[PathBuf], path: &Path) -> Result<(), DeltaError> {
    let mut writer = DeltaWriter::new(BufWriter::with_capacity(BUFFER, File::create(path)?))?;
    for entry in Merge::open(group)? {
        let (word, count) = entry?;
        writer.add(&word, count)?;
    }
    writer.finish()?;
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::count::Counts;

    #[test]
    fn many_files_merge_in_several_passes_to_the_same_totals() {
        let folder = tempfile::tempdir().unwrap();
        let mut all = Counts::default();
        let mut paths = Vec::new();
        for file in 0..FAN_IN * 2 + 3 {
            let mut counts = Counts::default();
            for word in 0..20 {
                let word = format!("w{}", word * (file % 7 + 1));
                counts.add(word.as_bytes());
                all.add(word.as_bytes());
            }
            let path = folder.path().join(format!("d{file}"));
            let mut writer = DeltaWriter::new(File::create(&path).unwrap()).unwrap();
            for (word, count) in counts.sorted() {
                writer.add(word, count).unwrap();
            }
            writer.finish().unwrap();
            paths.push(path);
        }
        let merged: Vec<Entry> = merge_files(paths, folder.path())
            .unwrap()
            .collect::<Result<_, _>>()
            .unwrap();
        let expected: Vec<Entry> = all
            .sorted()
            .into_iter()
            .map(|(word, count)| (word.to_vec(), count))
            .collect();
        assert_eq!(merged, expected);
    }

    #[test]
    fn a_damaged_file_ends_the_merge_with_an_error() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("cut");
        let mut writer = DeltaWriter::new(Vec::new()).unwrap();
        writer.add(b"a", 1).unwrap();
        writer.add(b"b", 1).unwrap();
        let (bytes, _) = writer.finish().unwrap();
        std::fs::write(&path, &bytes[..bytes.len() - 1]).unwrap();
        let mut merge = merge_files(vec![path], folder.path()).unwrap();
        assert!(merge.next().unwrap().is_ok());
        assert!(merge.next().unwrap().is_err());
        assert!(merge.next().is_none());
    }
}
