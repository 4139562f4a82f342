//! Keeps the allocator from holding on to memory that is free.

use std::os::unix::process::CommandExt;
use std::process::Command;

/// What glibc reads at a program's start.
const THRESHOLD: &str = "MALLOC_MMAP_THRESHOLD_";

/// Starts this program once more, in place, with glibc's threshold for blocks that
/// go back to the system fixed at its default of 128 KiB.
///
/// Left alone, glibc raises it whenever a large block is freed. The workers' tables
/// then stay in their threads' heaps, and peak memory depends on which worker met
/// which file when: seen were 89 and 95 MiB for a tree once and twice, against 83
/// and 85 MiB with it. Does nothing where the variable is set, or on another libc.
pub fn fix_mmap_threshold() {
    if !cfg!(target_env = "gnu") || std::env::var_os(THRESHOLD).is_some() {
        return;
    }
    let mut args = std::env::args_os();
    let (Some(name), Ok(program)) = (args.next(), std::env::current_exe()) else {
        return;
    };
    // It returns only where it failed; then the program goes on as it is.
    let failed = Command::new(program)
        .arg0(name)
        .args(args)
        .env(THRESHOLD, "131072")
        .exec();
    tracing::debug!(error = %failed, "goes on with the allocator as it is");
}
