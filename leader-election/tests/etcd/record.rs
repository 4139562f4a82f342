//! What a candidate in a process of its own writes down, for the test that started it.

use std::{
    fs::File,
    io::{self, Write},
    path::Path,
    time::Duration,
};

/// One entry of a child's record, in nanoseconds since boot.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Entry {
    pub(crate) token: u64,
    /// When it was written.
    pub(crate) at: u64,
    /// The deadline of the leadership, zero when it is over.
    pub(crate) deadline: u64,
}

// ===== impl Entry =====

impl Entry {
    const BYTES: usize = 24;

    /// Reads a record; an entry that is being written is left out.
    pub(crate) fn read_all(record: &Path) -> Vec<Self> {
        let bytes = match std::fs::read(record) {
            Ok(bytes) => bytes,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Vec::new(),
            Err(error) => panic!("{}: {error}", record.display()),
        };
        let entry = |bytes: &[u8]| {
            let number = |at: usize| {
                let bytes = bytes[at..at + 8].try_into().expect("eight bytes");
                u64::from_le_bytes(bytes)
            };
            Self {
                token: number(0),
                at: number(8),
                deadline: number(16),
            }
        };
        bytes.chunks_exact(Self::BYTES).map(entry).collect()
    }

    /// In one write: whoever is killed leaves whole entries.
    pub(crate) fn write(self, record: &mut File) {
        let mut bytes = [0; Self::BYTES];
        bytes[..8].copy_from_slice(&self.token.to_le_bytes());
        bytes[8..16].copy_from_slice(&self.at.to_le_bytes());
        bytes[16..].copy_from_slice(&self.deadline.to_le_bytes());
        record.write_all(&bytes).expect("the record is writable");
    }
}

/// Of the clock that all processes of the machine share.
pub(crate) fn nanos(time: Duration) -> u64 {
    u64::try_from(time.as_nanos()).expect("the machine booted lately")
}

pub(crate) fn open(record: &Path) -> File {
    let file = File::options().append(true).create(true).open(record);
    file.expect("the record opens")
}
