//! Halves of the protection that can be left out, to show that the judge of `chaos` would
//! notice: only in a build with the feature `controls`.

use std::fmt;
use std::path::{Path, PathBuf};
use std::str::FromStr;
use std::time::Duration;

/// One half of the protection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Half {
    /// The leader asks its guard, and the watchdog ends it.
    Guard,
    /// A commit compares the leader's key with the token.
    CommitGuard,
    /// A commit compares the head with what it replaces.
    CompareOnHead,
    /// An epoch is committed only with the answer of each worker.
    AllAnswers,
    /// A worker obeys the highest term that it has met: a session of it ends the others.
    TermCheck,
    /// A worker admits commands by a durable mark.
    Fence,
}

/// Each half with its name on the command line.
const HALVES: [(Half, &str); 6] = [
    (Half::Guard, "guard"),
    (Half::CommitGuard, "commit-guard"),
    (Half::CompareOnHead, "compare-on-head"),
    (Half::AllAnswers, "all-answers"),
    (Half::TermCheck, "term-check"),
    (Half::Fence, "fence"),
];

/// Without its guard a leader hears of its loss so much later.
pub(crate) const HEARS_LATE: Duration = Duration::from_secs(2);

#[cfg(feature = "controls")]
static LEFT_OUT: std::sync::OnceLock<Vec<Half>> = std::sync::OnceLock::new();

/// Leaves these out in this process, from now on; only the first call counts.
#[cfg(feature = "controls")]
pub fn leave_out(halves: &[Half]) {
    let _ = LEFT_OUT.set(halves.to_vec());
}

/// Says whether a half is left out; never without the feature.
#[cfg(feature = "controls")]
pub(crate) fn is_off(half: Half) -> bool {
    LEFT_OUT.get().is_some_and(|halves| halves.contains(&half))
}

/// Says whether a half is left out; never without the feature.
#[cfg(not(feature = "controls"))]
pub(crate) const fn is_off(_half: Half) -> bool {
    false
}

/// Says whether the watchdog ends a leader whose lease is over.
#[must_use]
pub fn guards() -> bool {
    !is_off(Half::Guard)
}

/// Says whether workers have sessions of one term at a time.
#[must_use]
pub fn checks_terms() -> bool {
    !is_off(Half::TermCheck)
}

/// Says whether workers have a fence.
#[must_use]
pub fn fences() -> bool {
    !is_off(Half::Fence)
}

/// Returns the file beside an output folder that leaders write to without any fence, where
/// it is there: a line for each attempt of a commit, with the time since boot in nanoseconds
/// and the token.
#[must_use]
pub fn acts(folder: &Path) -> PathBuf {
    folder.with_extension("acts")
}

/// Writes down an attempt of a commit, just before it is made.
#[cfg(feature = "controls")]
pub(crate) fn act(folder: &Path, token: u64) {
    use std::io::Write;

    if let Ok(mut file) = std::fs::File::options().append(true).open(acts(folder)) {
        let line = format!("{} {token}\n", fencing::boot_time().as_nanos());
        // What is missing in it would be missed by the control.
        let _ = file.write_all(line.as_bytes());
    }
}

/// Writes nothing without the feature.
#[cfg(not(feature = "controls"))]
pub(crate) const fn act(_folder: &Path, _token: u64) {}

impl fmt::Display for Half {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let name = HALVES.iter().find(|(half, _)| half == self);
        f.write_str(name.map_or("", |(_, name)| name))
    }
}

impl FromStr for Half {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let found = HALVES.iter().find(|(_, name)| *name == text);
        found.map(|(half, _)| *half).ok_or_else(|| {
            let names = HALVES.map(|(_, name)| name).join(", ");
            format!("the halves are {names}")
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_half_has_a_name_and_none_is_left_out_unless_asked() {
        for (half, name) in HALVES {
            assert_eq!(name.parse(), Ok(half));
            assert_eq!(half.to_string(), name);
            assert!(!is_off(half));
        }
        assert!("none".parse::<Half>().is_err());
    }
}
