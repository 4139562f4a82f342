//! The input: one file after the other, so that there is always something to count.

use std::fmt::Write;
use std::io;
use std::path::{Path, PathBuf};
use std::time::Duration;

use tokio_util::sync::CancellationToken;

use super::judge::{Addition, Told};
use crate::etcd::{Errand, Failed, Keys, Link};
use crate::requests::RequestKind;

/// Size of each file, bytes.
const SIZE: usize = 60_000;

/// How long the loop may take to serve a request before it is withdrawn.
const WAIT: Duration = Duration::from_secs(10);

/// Adds a new file each `every` until `stop`; returns what became of each.
///
/// # Errors
///
/// Those of writing the files.
///
/// # Cancel safety
///
/// Dropped in a request, that one may still be served.
pub(super) async fn feed(
    (link, keys): (&Link, &Keys),
    folder: &Path,
    seed: u64,
    every: Duration,
    stop: &CancellationToken,
) -> io::Result<Vec<Addition>> {
    let mut random = fastrand::Rng::with_seed(seed);
    let mut additions = Vec::new();
    while !stop.is_cancelled() {
        let path = write(folder, additions.len(), &mut random)?;
        let kind = RequestKind::Add(path.clone());
        let served = Errand::new(link.clone(), keys.clone(), kind)
            .run(WAIT)
            .await;
        let told = match served {
            Ok(_) => Told::Served,
            Err(Failed::Unknown(_)) => Told::Nothing,
            Err(Failed::Refused(_) | Failed::Withdrawn(_)) => Told::NotServed,
        };
        additions.push(Addition { path, told });
        tokio::select! {
            () = tokio::time::sleep(every) => {}
            () = stop.cancelled() => {}
        }
    }
    Ok(additions)
}

fn write(folder: &Path, number: usize, random: &mut fastrand::Rng) -> io::Result<PathBuf> {
    let path = folder.join(format!("file-{number}"));
    let mut text = String::with_capacity(SIZE + 16);
    while text.len() < SIZE {
        let end = if random.u8(0..12) == 0 { '\n' } else { ' ' };
        // Writing to a string cannot fail.
        let _ = write!(text, "w{}{end}", random.u16(0..2000));
    }
    std::fs::write(&path, text)?;
    Ok(path)
}
