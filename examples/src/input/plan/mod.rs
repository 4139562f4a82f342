//! The plan: slices that neither begin nor end within a word, and their reading.

use std::ffi::OsStr;
use std::fs::File;
use std::io::{self, Read, Seek, SeekFrom};
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::sync::Arc;

use super::InputError;
use super::find::modified_ns;
use crate::count::{Words, is_word_byte};
use crate::wire::{Plan, Position, Shard, Slice, Source};

/// Shards at the most: the grain in which work moves between workers.
const SHARDS: u64 = 64;

/// How far a cut moves forward in search of a byte that is in no word.
const CUT_SEARCH: u64 = 64 * 1024;

/// The input of all runs on one output folder.
#[derive(Clone, Debug, PartialEq)]
pub struct InputPlan {
    plan: Plan,
}

impl InputPlan {
    /// Cuts the files into slices and shards; each file is opened once.
    ///
    /// # Errors
    ///
    /// [`InputError::Unreadable`] with the first file that cannot be opened or read.
    pub fn new(sources: Vec<Source>) -> Result<Self, InputError> {
        let total_bytes: u64 = sources.iter().map(|source| source.len).sum();
        let step = (total_bytes / SHARDS).clamp(4 * 1024, 4 * 1024 * 1024);
        let mut shards = vec![Shard::default(); usize::try_from(SHARDS).unwrap_or(64)];
        let mut before = 0;
        for (index, source) in (0..).zip(&sources) {
            let path = source_path(source);
            let cuts = cuts(path, source.len, step)
                .map_err(|error| InputError::Unreadable(path.to_owned(), error))?;
            for (start, end) in cuts.iter().zip(&cuts[1..]) {
                let shard = before * SHARDS / u64::max(total_bytes, 1);
                let shard = usize::try_from(shard).unwrap_or(0).min(shards.len() - 1);
                shards[shard].slices.push(Slice {
                    source: index,
                    start: *start,
                    end: *end,
                });
                before += end - start;
            }
        }
        shards.retain(|shard| !shard.slices.is_empty());
        Ok(Self {
            plan: Plan {
                sources,
                shards,
                total_bytes,
            },
        })
    }

    /// Takes a plan that was stored.
    #[must_use]
    pub fn from_stored(plan: Plan) -> Self {
        Self { plan }
    }

    /// Adds the files and shards of another plan behind those of this one.
    pub fn extend(&mut self, part: Plan) {
        let before = self.plan.sources.len() as u32;
        self.plan.sources.extend(part.sources);
        self.plan
            .shards
            .extend(part.shards.into_iter().map(|mut shard| {
                for slice in &mut shard.slices {
                    slice.source += before;
                }
                shard
            }));
        self.plan.total_bytes += part.total_bytes;
    }

    /// Returns the plan as it is stored.
    #[must_use]
    pub fn stored(&self) -> &Plan {
        &self.plan
    }

    /// Checks that the files found now are those of this plan, without reading one.
    ///
    /// # Errors
    ///
    /// [`InputError::Changed`] with the first file that differs, or [`InputError::OtherFiles`].
    pub fn check_unchanged(&self, found: &[Source]) -> Result<(), InputError> {
        let planned = &self.plan.sources;
        if planned.len() != found.len() || planned.iter().zip(found).any(|(a, b)| a.path != b.path)
        {
            return Err(InputError::OtherFiles);
        }
        match planned.iter().zip(found).find(|(a, b)| a != b) {
            Some((_, changed)) => Err(InputError::Changed(source_path(changed).to_owned())),
            None => Ok(()),
        }
    }

    /// Looks whether the files are still those of this plan, without reading one.
    ///
    /// # Errors
    ///
    /// [`InputError`] with the first file that is gone or has changed.
    pub fn check_on_disk(&self) -> Result<(), InputError> {
        for source in &self.plan.sources {
            let path = source_path(source);
            let named = |error| InputError::Unreadable(path.to_owned(), error);
            let meta = std::fs::metadata(path).map_err(named)?;
            if meta.len() != source.len || modified_ns(&meta) != source.modified_ns {
                return Err(InputError::Changed(path.to_owned()));
            }
        }
        Ok(())
    }

    /// Returns the input's size, bytes.
    #[must_use]
    pub fn total_bytes(&self) -> u64 {
        self.plan.total_bytes
    }

    /// Returns each file with the length that counts.
    pub fn files(&self) -> impl Iterator<Item = (&Path, u64)> {
        self.plan
            .sources
            .iter()
            .map(|source| (source_path(source), source.len))
    }

    /// Returns the position of each shard before anything was read.
    #[must_use]
    pub fn start(&self) -> Vec<Position> {
        (0..)
            .zip(&self.plan.shards)
            .map(|(shard, _)| Position {
                shard,
                ..Position::default()
            })
            .collect()
    }

    /// Returns the position of each shard where these, of some of them, were reached.
    #[must_use]
    pub fn reached(&self, positions: &[Position]) -> Vec<Position> {
        let mut all = self.start();
        advance(&mut all, positions);
        all
    }

    /// Returns the bytes that lie before these positions, one for each shard.
    #[must_use]
    pub fn counted(&self, positions: &[Position]) -> u64 {
        let left: u64 = positions.iter().map(|p| self.remaining(p)).sum();
        self.total_bytes() - left
    }

    /// Returns the bytes of the shard that lie after `position`; zero for a shard that is none.
    #[must_use]
    pub fn remaining(&self, position: &Position) -> u64 {
        let Some(shard) = self.plan.shards.get(position.shard as usize) else {
            return 0;
        };
        let ahead = shard.slices.iter().skip(position.slice as usize);
        let bytes: u64 = ahead.map(|slice| slice.end - slice.start).sum();
        bytes.saturating_sub(position.offset)
    }

    /// Returns a reader that goes on at `position`, or `None` for a shard that is none.
    #[must_use]
    pub fn reader(self: &Arc<Self>, position: &Position) -> Option<ShardReader> {
        self.plan.shards.get(position.shard as usize)?;
        Some(ShardReader {
            plan: Arc::clone(self),
            words: Words::resume(&position.partial),
            position: Position {
                partial: Vec::new(),
                ..position.clone()
            },
            file: None,
        })
    }
}

/// Puts the newer positions, of some shards, in the place of those in `all`.
pub fn advance(all: &mut [Position], newer: &[Position]) {
    for position in newer {
        if let Some(kept) = all.get_mut(position.shard as usize) {
            kept.clone_from(position);
        }
    }
}

fn source_path(source: &Source) -> &Path {
    Path::new(OsStr::from_bytes(&source.path))
}

/// Returns where the slices of a file begin, and its end; one entry for an empty file.
fn cuts(path: &Path, len: u64, step: u64) -> io::Result<Vec<u64>> {
    let mut file = File::open(path)?;
    let mut cuts = vec![0];
    let mut wanted = step;
    while wanted < len {
        file.seek(SeekFrom::Start(wanted))?;
        let mut near = Vec::new();
        file.by_ref().take(CUT_SEARCH).read_to_end(&mut near)?;
        if let Some(found) = near.iter().position(|&byte| !is_word_byte(byte)) {
            let cut = wanted + found as u64;
            if cut < len {
                cuts.push(cut);
            }
            wanted = cut;
        }
        wanted += step;
    }
    if len > 0 {
        // One byte shows that it can be read at all.
        file.seek(SeekFrom::Start(0))?;
        file.read_exact(&mut [0])?;
        cuts.push(len);
    }
    Ok(cuts)
}

/// Reads one shard, chunk by chunk, and cuts it into words.
#[derive(Debug)]
pub struct ShardReader {
    plan: Arc<InputPlan>,
    /// The position without the partial word, which `words` holds.
    position: Position,
    words: Words,
    file: Option<File>,
}

impl ShardReader {
    /// Says whether the whole shard was read.
    #[must_use]
    pub fn is_done(&self) -> bool {
        self.slice().is_none()
    }

    /// Returns where the reading stands.
    #[must_use]
    pub fn position(&self) -> Position {
        Position {
            partial: self.words.partial().to_vec(),
            ..self.position.clone()
        }
    }

    /// Reads once into `buffer`, hands on the chunk's words, and returns the chunk.
    ///
    /// # Errors
    ///
    /// [`InputError`] where a file cannot be read or became shorter.
    pub fn read<'b>(
        &mut self,
        buffer: &'b mut [u8],
        emit: impl FnMut(&[u8]),
    ) -> Result<&'b [u8], InputError> {
        let Some(slice) = self.slice() else {
            return Ok(&[]);
        };
        let (start, end) = (slice.start, slice.end);
        let source = self
            .plan
            .plan
            .sources
            .get(slice.source as usize)
            .ok_or(InputError::OtherFiles)?;
        let path = source_path(source);
        let left = end - start - self.position.offset;
        let want = usize::try_from(left)
            .unwrap_or(usize::MAX)
            .min(buffer.len());
        let at = start + self.position.offset;
        let n = read_at(&mut self.file, path, at, &mut buffer[..want])
            .map_err(|error| InputError::Unreadable(path.to_owned(), error))?;
        if n == 0 {
            return Err(InputError::Changed(path.to_owned()));
        }
        self.position.offset += n as u64;
        self.advance(n as u64 == left, &buffer[..n], emit);
        Ok(&buffer[..n])
    }

    fn slice(&self) -> Option<&Slice> {
        let shard = self.plan.plan.shards.get(self.position.shard as usize)?;
        shard.slices.get(self.position.slice as usize)
    }

    fn advance(&mut self, slice_ended: bool, chunk: &[u8], mut emit: impl FnMut(&[u8])) {
        self.words.feed(chunk, &mut emit);
        if slice_ended {
            self.words.finish(emit);
            self.position.slice += 1;
            self.position.offset = 0;
            self.file = None;
        }
    }
}

fn read_at(kept: &mut Option<File>, path: &Path, at: u64, buffer: &mut [u8]) -> io::Result<usize> {
    let mut file = match kept.take() {
        Some(file) => file,
        None => {
            let mut file = File::open(path)?;
            file.seek(SeekFrom::Start(at))?;
            file
        }
    };
    let n = file.read(buffer)?;
    *kept = Some(file);
    Ok(n)
}

#[cfg(test)]
mod tests;
