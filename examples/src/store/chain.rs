//! The chain of committed epochs: an append-only file of manifests.
//!
//! A record is the manifest's length (`u32`, little endian), the same with each
//! bit turned (so that a damaged length is not taken for a cut), the manifest's
//! CRC-32 and its bytes. A record that the end of the file cuts was never acknowledged and is
//! dropped; a damaged one before the end is an error, since acknowledged ones
//! may follow it.

use std::fmt;
use std::fs::{File, OpenOptions};
use std::io::{self, Read};
use std::os::unix::fs::FileExt;
use std::path::Path;

use prost::Message;

use crate::wire::{Delta, Epoch, Manifest};

/// Length, its complement and the checksum before each record, bytes.
pub(super) const PREFIX: usize = 12;

/// Why the chain cannot be opened.
#[derive(Debug)]
#[non_exhaustive]
pub enum ChainError {
    /// The file cannot be read or written.
    Io(io::Error),
    /// The record at this byte is damaged, or does not follow the one before.
    Damaged(u64),
}

impl fmt::Display for ChainError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Io(error) => write!(f, "the chain of epochs cannot be used: {error}"),
            Self::Damaged(at) => write!(
                f,
                "the chain of epochs is damaged at byte {at}: restore the file, or use a new --out"
            ),
        }
    }
}

impl std::error::Error for ChainError {}

impl From<io::Error> for ChainError {
    fn from(error: io::Error) -> Self {
        Self::Io(error)
    }
}

/// Why a manifest was not appended.
#[derive(Debug)]
#[non_exhaustive]
pub enum AppendError {
    /// The manifest does not follow the head; nothing was written.
    Fork {
        /// The chain's head.
        head: Epoch,
    },
    /// It may have landed or not: repeat the same manifest until this is settled.
    Unknown(io::Error),
}

impl fmt::Display for AppendError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Fork { head } => write!(f, "the chain's head is {head}"),
            Self::Unknown(error) => write!(f, "the outcome is unknown: {error}"),
        }
    }
}

/// What an append did.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Appended {
    /// The manifest is the new head, durably.
    New,
    /// The same manifest was the head already.
    Already,
}

/// The committed epochs, each following the one before.
#[derive(Debug)]
pub struct Chain {
    file: File,
    /// Length of the valid records, bytes; also where the next one goes.
    len: u64,
    head: Manifest,
    epochs: Vec<Epoch>,
    deltas: Vec<Delta>,
}

impl Chain {
    /// Opens the chain, or begins an empty one.
    ///
    /// # Errors
    ///
    /// [`ChainError`].
    pub fn open(path: &Path) -> Result<Self, ChainError> {
        let mut file = OpenOptions::new()
            .read(true)
            .write(true)
            .create(true)
            .truncate(false)
            .open(path)?;
        let mut bytes = Vec::new();
        file.read_to_end(&mut bytes)?;
        let mut chain = Self {
            file,
            len: 0,
            head: Manifest::default(),
            epochs: Vec::new(),
            deltas: Vec::new(),
        };
        let mut rest = &bytes[..];
        while let Some(record) = next_record(rest, chain.len)? {
            let damaged = ChainError::Damaged(chain.len);
            let Ok(manifest) = Manifest::decode(&record[PREFIX..]) else {
                return Err(damaged);
            };
            if !chain.follows(&manifest) {
                return Err(damaged);
            }
            rest = &rest[record.len()..];
            chain.extend(manifest, record.len());
        }
        if chain.len < bytes.len() as u64 {
            chain.file.set_len(chain.len)?;
            chain.file.sync_all()?;
        }
        Ok(chain)
    }

    /// Appends `manifest` durably where it follows the head.
    ///
    /// # Errors
    ///
    /// [`AppendError::Fork`] where it does not, [`AppendError::Unknown`] where the
    /// file system failed: then the next append overwrites what may be there.
    pub fn append(&mut self, manifest: &Manifest) -> Result<Appended, AppendError> {
        if *manifest == self.head {
            return Ok(Appended::Already);
        }
        if !self.follows(manifest) {
            let head = self.head.id();
            return Err(AppendError::Fork { head });
        }
        let record = encode(manifest);
        self.write(&record).map_err(AppendError::Unknown)?;
        self.extend(manifest.clone(), record.len());
        Ok(Appended::New)
    }

    /// Returns the last committed manifest; the default one before the first.
    #[must_use]
    pub fn head(&self) -> &Manifest {
        &self.head
    }

    /// Returns the committed epochs in order.
    #[must_use]
    pub fn epochs(&self) -> &[Epoch] {
        &self.epochs
    }

    /// Returns every delta that the chain references.
    #[must_use]
    pub fn deltas(&self) -> &[Delta] {
        &self.deltas
    }

    fn follows(&self, manifest: &Manifest) -> bool {
        let head = self.head.id();
        manifest.predecessor() == head && manifest.id().order() > head.order() && !self.head.last
    }

    fn write(&mut self, record: &[u8]) -> io::Result<()> {
        self.file.write_all_at(record, self.len)?;
        // An earlier append of unknown outcome may have left a longer record here.
        self.file.set_len(self.len + record.len() as u64)?;
        self.file.sync_all()
    }

    fn extend(&mut self, manifest: Manifest, record_len: usize) {
        self.len += record_len as u64;
        self.epochs.push(manifest.id());
        self.deltas.extend(manifest.deltas.iter().cloned());
        self.head = manifest;
    }
}

pub(super) fn encode(manifest: &Manifest) -> Vec<u8> {
    let body = manifest.encode_to_vec();
    let mut record = Vec::with_capacity(PREFIX + body.len());
    let len = body.len() as u32;
    record.extend_from_slice(&len.to_le_bytes());
    record.extend_from_slice(&(!len).to_le_bytes());
    record.extend_from_slice(&crc32fast::hash(&body).to_le_bytes());
    record.extend_from_slice(&body);
    record
}

/// Returns the first record of `bytes`, or `None` where the rest is empty or was cut.
pub(super) fn next_record(bytes: &[u8], at: u64) -> Result<Option<&[u8]>, ChainError> {
    let Some((prefix, body)) = bytes.split_first_chunk::<PREFIX>() else {
        return Ok(None);
    };
    let number = |at: usize| {
        let bytes = &prefix[at..at + 4];
        bytes
            .iter()
            .rev()
            .fold(0, |n, &byte| n << 8 | u32::from(byte))
    };
    let (len, crc) = (number(0), number(8));
    // Blocks of one write may reach the disk in any order: the last record can be torn.
    if len != !number(4) {
        let torn = bytes.iter().all(|&byte| byte == 0);
        return torn.then_some(None).ok_or(ChainError::Damaged(at));
    }
    match body.get(..len as usize) {
        None => Ok(None),
        Some(record) if crc32fast::hash(record) == crc => Ok(Some(&bytes[..PREFIX + record.len()])),
        Some(record) if record.len() == body.len() => Ok(None),
        Some(_) => Err(ChainError::Damaged(at)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn manifest(prev: Epoch, epoch: Epoch) -> Manifest {
        Manifest {
            epoch: Some(epoch),
            prev: Some(prev),
            deltas: vec![Delta {
                name: format!("{epoch}"),
                ..Delta::default()
            }],
            ..Manifest::default()
        }
    }

    /// Writes three epochs and returns the folder and where each record ends.
    fn three() -> (tempfile::TempDir, std::path::PathBuf, Vec<u64>) {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("chain");
        let mut chain = Chain::open(&path).unwrap();
        let (mut prev, mut ends) = (Epoch::START, vec![0]);
        for epoch in [Epoch::new(1, 1), Epoch::new(1, 3), Epoch::new(4, 1)] {
            let appended = chain.append(&manifest(prev, epoch)).unwrap();
            assert_eq!(appended, Appended::New);
            ends.push(chain.len);
            prev = epoch;
        }
        (folder, path, ends)
    }

    #[test]
    fn only_what_follows_the_head_is_appended_and_a_repetition_lands_once() {
        let (_folder, path, _) = three();
        let mut chain = Chain::open(&path).unwrap();
        assert_eq!(chain.epochs().len(), 3);
        let again = manifest(Epoch::new(1, 3), Epoch::new(4, 1));
        assert_eq!(chain.append(&again).unwrap(), Appended::Already);
        for (prev, epoch) in [
            (Epoch::new(1, 3), Epoch::new(4, 2)),
            (Epoch::new(4, 1), Epoch::new(4, 1)),
            (Epoch::new(4, 1), Epoch::new(3, 9)),
        ] {
            let error = chain.append(&manifest(prev, epoch)).unwrap_err();
            assert!(matches!(error, AppendError::Fork { .. }), "{error}");
        }
        let mut other = again;
        other.rows = 1;
        assert!(chain.append(&other).is_err(), "same epoch, other content");
        assert_eq!(chain.deltas().len(), 3);
    }

    #[test]
    fn nothing_follows_the_last_epoch() {
        let folder = tempfile::tempdir().unwrap();
        let mut chain = Chain::open(&folder.path().join("chain")).unwrap();
        let mut last = manifest(Epoch::START, Epoch::new(1, 1));
        last.last = true;
        chain.append(&last).unwrap();
        let more = manifest(Epoch::new(1, 1), Epoch::new(1, 2));
        assert!(chain.append(&more).is_err());
    }

    #[test]
    fn a_file_cut_at_any_byte_keeps_the_whole_records() {
        let (_folder, path, ends) = three();
        let bytes = std::fs::read(&path).unwrap();
        for len in 0..bytes.len() {
            std::fs::write(&path, &bytes[..len]).unwrap();
            let whole = ends.iter().filter(|&&end| end <= len as u64).count() - 1;
            let mut chain = Chain::open(&path).unwrap();
            assert_eq!(chain.epochs().len(), whole, "cut at {len}");
            let next = manifest(chain.head().id(), Epoch::new(9, 1));
            chain.append(&next).unwrap();
            assert_eq!(Chain::open(&path).unwrap().epochs().len(), whole + 1);
        }
    }

    #[test]
    fn damage_before_the_end_is_an_error_not_a_shorter_chain() {
        let (_folder, path, ends) = three();
        let bytes = std::fs::read(&path).unwrap();
        for at in ends[1]..ends[2] {
            let mut damaged = bytes.clone();
            damaged[at as usize] ^= 1;
            std::fs::write(&path, &damaged).unwrap();
            let error = Chain::open(&path).unwrap_err();
            assert!(matches!(error, ChainError::Damaged(_)), "{at}: {error}");
            assert_eq!(std::fs::read(&path).unwrap(), damaged, "nothing was lost");
        }
        let mut torn = bytes;
        let last = torn.len() - 1;
        torn[last] ^= 1;
        std::fs::write(&path, &torn).unwrap();
        assert_eq!(Chain::open(&path).unwrap().epochs().len(), 2);
    }
}
