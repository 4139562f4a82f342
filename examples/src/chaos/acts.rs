//! What leaders write without any fence: each attempt of a commit, with its time. Only the
//! guard keeps a deposed leader from it.

use std::collections::BTreeMap;
use std::path::Path;
use std::time::Duration;

use crate::controls::acts;

/// One attempt.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Act {
    /// Just before it was made, as time since boot.
    pub at: Duration,
    /// The leader's token.
    pub token: u64,
}

// ===== impl Act =====

impl Act {
    /// Reads what was written in an output folder; nothing where leaders write nothing.
    #[must_use]
    pub fn read(folder: &Path) -> Vec<Self> {
        let text = std::fs::read_to_string(acts(folder)).unwrap_or_default();
        text.lines().filter_map(Self::parse).collect()
    }

    fn parse(line: &str) -> Option<Self> {
        let (nanos, token) = line.split_once(' ')?;
        Some(Self {
            at: Duration::from_nanos(nanos.parse().ok()?),
            token: token.parse().ok()?,
        })
    }
}

/// Returns in words what was done after its leader must have stopped, a line for each leader.
#[must_use]
pub fn late_acts(acts: &[Act], deadlines: &BTreeMap<u64, Duration>) -> Vec<String> {
    let mut late: BTreeMap<u64, Vec<Duration>> = BTreeMap::new();
    for act in acts {
        if let Some(deadline) = deadlines.get(&act.token)
            && act.at > *deadline
        {
            late.entry(act.token).or_default().push(act.at - *deadline);
        }
    }
    let lines = late.iter().map(|(token, late)| {
        let (count, most) = (late.len(), late.iter().max().copied().unwrap_or_default());
        format!("the leader {token} acted {count} times after its lease, up to {most:.2?} after it")
    });
    lines.collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_act_after_the_deadline_of_its_token_is_late_and_no_other() {
        let folder = tempfile::tempdir().unwrap();
        assert_eq!(Act::read(folder.path()), []);
        let lines = "5000000000 7\n5000000001 7\n6500000000 7\n9000000000 9\n9 x\n";
        std::fs::write(acts(folder.path()), lines).unwrap();
        let read = Act::read(folder.path());
        assert_eq!(read.len(), 4);
        let deadlines = BTreeMap::from([(7, Duration::from_secs(5)), (8, Duration::ZERO)]);
        let late = late_acts(&read, &deadlines);
        let line = "the leader 7 acted 2 times after its lease, up to 1.50s after it";
        assert_eq!(late, [line]);
        assert!(late_acts(&read[..1], &deadlines).is_empty());
    }
}
