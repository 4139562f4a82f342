//! Sorted files of counts.
//!
//! Layout: `WCD1`, then per word its length (one byte, 1 to 64), its bytes and
//! its count (`u64`, little endian), in rising order of the bytes; then a zero
//! byte, the number of words (`u64`) and the CRC-32 of everything before it
//! (`u32`). A file without its end is no delta.

use std::fmt;
use std::io::{self, Read, Write};
use std::path::{Path, PathBuf};

use super::words::MAX_WORD;

const MAGIC: &[u8; 4] = b"WCD1";

/// What is wrong with a delta file.
#[derive(Debug)]
#[non_exhaustive]
pub enum DeltaError {
    /// The file cannot be read.
    Io(io::Error),
    /// The bytes are no delta file, or not a whole one.
    Damaged(&'static str),
    /// What is wrong with the file of this path.
    At(PathBuf, Box<Self>),
}

impl fmt::Display for DeltaError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Io(error) => write!(f, "cannot be read: {error}"),
            Self::Damaged(what) => write!(f, "is damaged: {what}"),
            Self::At(path, what) => write!(
                f,
                "{} {what}: restore it, or use a new --out",
                path.display()
            ),
        }
    }
}

impl std::error::Error for DeltaError {}

impl DeltaError {
    /// Names the file.
    #[must_use]
    pub fn at(self, path: &Path) -> Self {
        Self::At(path.to_owned(), Box::new(self))
    }
}

impl From<io::Error> for DeltaError {
    fn from(error: io::Error) -> Self {
        if error.kind() == io::ErrorKind::UnexpectedEof {
            Self::Damaged("it ends early")
        } else {
            Self::Io(error)
        }
    }
}

/// What was written, for whoever names the file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct DeltaSummary {
    /// Number of words.
    pub words: u64,
    /// Length of the file, bytes.
    pub file_bytes: u64,
    /// CRC-32 of the whole file but its last four bytes.
    pub crc32: u32,
}

/// Writes a delta, word by word in rising order.
#[derive(Debug)]
pub struct DeltaWriter<W> {
    out: W,
    crc: crc32fast::Hasher,
    words: u64,
    bytes: u64,
}

impl<W: Write> DeltaWriter<W> {
    /// Begins a delta.
    ///
    /// # Errors
    ///
    /// Those of the writer.
    pub fn new(out: W) -> io::Result<Self> {
        let mut writer = Self {
            out,
            crc: crc32fast::Hasher::new(),
            words: 0,
            bytes: 0,
        };
        writer.put(MAGIC)?;
        Ok(writer)
    }

    /// Adds a word of 1 to 64 bytes, above the one before.
    ///
    /// # Errors
    ///
    /// Those of the writer, and [`io::ErrorKind::InvalidInput`] for another length.
    pub fn add(&mut self, word: &[u8], count: u64) -> io::Result<()> {
        let len = match u8::try_from(word.len()) {
            Ok(len) if len > 0 && word.len() <= MAX_WORD => len,
            _ => return Err(io::ErrorKind::InvalidInput.into()),
        };
        self.put(&[len])?;
        self.put(word)?;
        self.put(&count.to_le_bytes())?;
        self.words += 1;
        Ok(())
    }

    /// Ends the delta and gives the writer back, unflushed bytes included.
    ///
    /// # Errors
    ///
    /// Those of the writer.
    pub fn finish(mut self) -> io::Result<(W, DeltaSummary)> {
        self.put(&[0])?;
        let words = self.words;
        self.put(&words.to_le_bytes())?;
        let crc32 = self.crc.clone().finalize();
        self.put(&crc32.to_le_bytes())?;
        self.out.flush()?;
        let summary = DeltaSummary {
            words,
            file_bytes: self.bytes,
            crc32,
        };
        Ok((self.out, summary))
    }

    fn put(&mut self, bytes: &[u8]) -> io::Result<()> {
        self.out.write_all(bytes)?;
        self.crc.update(bytes);
        self.bytes += bytes.len() as u64;
        Ok(())
    }
}

/// Reads a delta; its end is checked when it is reached.
#[derive(Debug)]
pub struct DeltaReader<R> {
    input: R,
    crc: crc32fast::Hasher,
    words: u64,
    ended: bool,
}

impl<R: Read> DeltaReader<R> {
    /// Begins to read; give a buffered reader.
    ///
    /// # Errors
    ///
    /// [`DeltaError`] where the first bytes are no delta's.
    pub fn new(input: R) -> Result<Self, DeltaError> {
        let mut reader = Self {
            input,
            crc: crc32fast::Hasher::new(),
            words: 0,
            ended: false,
        };
        let mut magic = [0; 4];
        reader.take(&mut magic)?;
        if &magic != MAGIC {
            return Err(DeltaError::Damaged("it does not begin as one"));
        }
        Ok(reader)
    }

    /// Reads the next word into `word` and returns its count; `None` at the end.
    ///
    /// # Errors
    ///
    /// [`DeltaError`], also at the end where the checksum does not fit.
    pub fn next_into(&mut self, word: &mut Vec<u8>) -> Result<Option<u64>, DeltaError> {
        if self.ended {
            return Ok(None);
        }
        let mut len = [0];
        self.take(&mut len)?;
        let len = usize::from(len[0]);
        let mut number = [0; 8];
        if len == 0 {
            self.take(&mut number)?;
            let expected = self.crc.clone().finalize();
            let mut crc = [0; 4];
            self.take(&mut crc)?;
            if u32::from_le_bytes(crc) != expected || u64::from_le_bytes(number) != self.words {
                return Err(DeltaError::Damaged("its checksum does not fit"));
            }
            self.ended = true;
            return Ok(None);
        }
        if len > MAX_WORD {
            return Err(DeltaError::Damaged("a word is too long"));
        }
        word.resize(len, 0);
        self.take(word)?;
        self.take(&mut number)?;
        self.words += 1;
        Ok(Some(u64::from_le_bytes(number)))
    }

    fn take(&mut self, bytes: &mut [u8]) -> Result<(), DeltaError> {
        self.input.read_exact(bytes)?;
        self.crc.update(bytes);
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn file(words: &[(&[u8], u64)]) -> Vec<u8> {
        let mut writer = DeltaWriter::new(Vec::new()).unwrap();
        for (word, count) in words {
            writer.add(word, *count).unwrap();
        }
        let (bytes, summary) = writer.finish().unwrap();
        assert_eq!(summary.file_bytes, bytes.len() as u64);
        assert_eq!(summary.words, words.len() as u64);
        bytes
    }

    fn read(bytes: &[u8]) -> Result<Vec<(Vec<u8>, u64)>, DeltaError> {
        let mut reader = DeltaReader::new(bytes)?;
        let (mut word, mut all) = (Vec::new(), Vec::new());
        while let Some(count) = reader.next_into(&mut word)? {
            all.push((word.clone(), count));
        }
        Ok(all)
    }

    #[test]
    fn what_was_written_is_read() {
        let long = [b'x'; MAX_WORD];
        let words: [(&[u8], u64); 3] = [(b"a", 1), (b"b", u64::MAX), (&long, 7)];
        let all = read(&file(&words)).unwrap();
        assert_eq!(all.len(), 3);
        assert_eq!(all[1], (b"b".to_vec(), u64::MAX));
        assert_eq!(read(&file(&[])).unwrap(), []);
    }

    #[test]
    fn a_cut_or_changed_file_is_refused() {
        let bytes = file(&[(b"alpha", 3), (b"beta", 4)]);
        for len in 0..bytes.len() {
            assert!(read(&bytes[..len]).is_err(), "cut at {len}");
        }
        for index in 0..bytes.len() {
            let mut changed = bytes.clone();
            changed[index] ^= 0x10;
            assert!(read(&changed).is_err(), "changed at {index}");
        }
    }

    #[test]
    fn a_word_of_another_length_is_refused() {
        let mut writer = DeltaWriter::new(Vec::new()).unwrap();
        assert!(writer.add(b"", 1).is_err());
        assert!(writer.add(&[b'x'; MAX_WORD + 1], 1).is_err());
    }
}
