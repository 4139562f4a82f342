//! Writes the counts since the last barrier as a delta file, durably.

use std::fs::{self, File};
use std::io::{self, BufWriter};
use std::path::Path;

use crate::count::{Counts, DeltaWriter};
use crate::store::clean::SCRATCH;
use crate::store::output::sync_folder;
use crate::wire::Delta;

/// Writes `counts` to the new file `name` in `folder`; on return it survives a crash.
///
/// # Errors
///
/// Those of the file system; the name then stands for nothing.
pub(super) fn write(folder: &Path, name: String, counts: &Counts) -> io::Result<Delta> {
    let scratch = folder.join(format!("{name}{SCRATCH}"));
    let written = write_synced(folder, &scratch, name, counts);
    if written.is_err() {
        // On a full disk what is left behind would keep it full.
        let _ = fs::remove_file(&scratch);
    }
    written
}

fn write_synced(folder: &Path, scratch: &Path, name: String, counts: &Counts) -> io::Result<Delta> {
    let mut writer = DeltaWriter::new(BufWriter::new(File::create(scratch)?))?;
    for (word, count) in counts.sorted() {
        writer.add(word, count)?;
    }
    let (out, summary) = writer.finish()?;
    out.into_inner()
        .map_err(io::IntoInnerError::into_error)?
        .sync_all()?;
    fs::rename(scratch, folder.join(&name))?;
    sync_folder(folder)?;
    Ok(Delta {
        name,
        words: summary.words,
        file_bytes: summary.file_bytes,
        crc32: summary.crc32,
    })
}
