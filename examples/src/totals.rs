//! The end of a run: merges the totals and compares them.

use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::io::{self, Write};
use std::path::PathBuf;

use crate::count::{Difference, Entry, compare, merge_files, plain_count};
use crate::input::InputPlan;
use crate::store::Output;
use crate::wire::Delta;

/// The result of a whole run.
#[derive(Clone, Debug, Default)]
#[non_exhaustive]
pub struct Totals {
    /// Words in all.
    pub words: u64,
    /// Different words.
    pub distinct: u64,
    /// The most frequent words, in falling order.
    pub top: Vec<Entry>,
    /// Whether the totals were compared with a plain count.
    pub is_compared: bool,
    /// The first word on which they differ.
    pub difference: Option<Difference>,
}

/// Merges the committed deltas into `counts.tsv` and compares them with a plain count.
///
/// It blocks; call it off the runtime. `go_on` is asked now and then: false ends it.
///
/// # Errors
///
/// Those of the files; [`io::ErrorKind::Interrupted`] after `go_on` said no.
pub fn total(
    output: &Output,
    deltas: &[Delta],
    plan: &InputPlan,
    top: usize,
    is_compared: bool,
    go_on: impl Fn() -> bool,
) -> io::Result<Totals> {
    let plain = if is_compared {
        Some(plain_count(plan.files(), &go_on)?)
    } else {
        None
    };
    let scratch = Scratch::new(output.folder().join("counts.tsv.merge"))?;
    let paths = deltas.iter().map(|d| output.delta_path(&d.name));
    let paths: Option<Vec<PathBuf>> = paths.collect();
    let paths = paths.ok_or_else(|| io::Error::other("the chain names a delta oddly"))?;
    let merge = merge_files(paths, &scratch.path).map_err(io::Error::other)?;
    let mut totals = Totals {
        is_compared,
        ..Totals::default()
    };
    let mut best = BinaryHeap::new();
    output.write_counts(|out| {
        let mut written = merge.map(|entry| {
            let (word, count) = entry?;
            out.write_all(&word)?;
            writeln!(out, "\t{count}")?;
            totals.words += count;
            totals.distinct += 1;
            best.push((Reverse(count), word.clone()));
            if best.len() > top {
                best.pop();
            }
            Ok((word, count))
        });
        if let Some(plain) = &plain {
            totals.difference = compare(written.by_ref(), plain).map_err(io::Error::other)?;
        }
        // The file is whole, also after a difference.
        written
            .try_for_each(|entry| entry.map(drop))
            .map_err(io::Error::other)
    })?;
    let best = best.into_sorted_vec().into_iter();
    totals.top = best.map(|(Reverse(count), word)| (word, count)).collect();
    Ok(totals)
}

/// A folder that is empty at first and gone at the end.
struct Scratch {
    path: PathBuf,
}

impl Scratch {
    fn new(path: PathBuf) -> io::Result<Self> {
        match std::fs::remove_dir_all(&path) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
            _ => {}
        }
        std::fs::create_dir(&path)?;
        Ok(Self { path })
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        // What stays is removed by the next run.
        let _ = std::fs::remove_dir_all(&self.path);
    }
}
