//! Looks at etcd and at the folder while the loop runs: when commits land, when leaders'
//! keys go, and which snapshots appear, since those of lost barriers are removed later.

use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::path::PathBuf;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, SystemTime};

use etcd_client::{GetResponse, KeyValue};
use fencing::boot_time;
use tokio::time::{Instant, sleep};

use crate::etcd::{Keys, Link, Unreachable};

/// How often it looks.
const EVERY: Duration = Duration::from_millis(20);

/// What has been seen so far.
#[derive(Debug)]
pub struct Witness {
    link: Link,
    keys: Keys,
    deltas: PathBuf,
    began: Instant,
    seen: Mutex<Seen>,
}

#[derive(Debug, Default)]
struct Seen {
    /// The revision of the last commit, and when it was first seen.
    last: Option<(i64, Duration)>,
    files: BTreeMap<String, SystemTime>,
    /// Each revision of etcd that was seen, and when, as time since boot.
    revisions: Vec<(i64, Duration)>,
    /// The tokens whose leases were not left to run out.
    taken: BTreeSet<u64>,
}

// ===== impl Witness =====

impl Witness {
    /// Has seen nothing yet; times count from now.
    #[must_use]
    pub fn new(link: Link, keys: Keys, deltas: PathBuf) -> Self {
        Self {
            link,
            keys,
            deltas,
            began: Instant::now(),
            seen: Mutex::default(),
        }
    }

    /// Returns the time since the beginning.
    #[must_use]
    pub fn now(&self) -> Duration {
        self.began.elapsed()
    }

    /// Keeps looking, for ever.
    ///
    /// # Cancel safety
    ///
    /// Cancel safe.
    pub async fn watch(&self) {
        loop {
            // A folder that cannot be read now is read the next time, and at the end.
            let _ = self.look_at_files();
            self.look().await;
            sleep(EVERY).await;
        }
    }

    async fn look(&self) {
        let Ok(read) = self.read().await else {
            return;
        };
        // After the answer: what it shows has happened by then.
        let (now, since_boot) = (self.now(), boot_time());
        let revision = read.header().map_or(0, |header| header.revision());
        let head = read.kvs().first().map_or(0, KeyValue::mod_revision);
        let mut seen = self.seen();
        if head > seen.last.map_or(0, |(last, _)| last) {
            seen.last = Some((head, now));
        }
        if revision > seen.revisions.last().map_or(0, |(last, _)| *last) {
            seen.revisions.push((revision, since_boot));
        }
    }

    /// Reads the chain's head, and with it etcd's revision.
    async fn read(&self) -> Result<GetResponse, Unreachable> {
        let key = self.keys.head();
        let read = self
            .link
            .call(|mut client| async move { client.get(key, None).await });
        read.await
    }

    /// Takes note that a leader's lease is about to be taken away: it may rely on what it
    /// was promised before.
    pub fn takes(&self, token: u64) {
        self.seen().taken.insert(token);
    }

    /// Returns for each token by when its leader must have stopped, as time since boot.
    ///
    /// `gone` says at which revision each token's key was gone: once that is seen, another
    /// can lead. A lease that was taken away would have lived for `ttl` at the most.
    #[must_use]
    pub fn deadlines(&self, gone: &BTreeMap<u64, i64>, ttl: Duration) -> BTreeMap<u64, Duration> {
        let seen = self.seen();
        let deadline = |(token, revision): (&u64, &i64)| {
            let at = seen.revisions.partition_point(|(seen, _)| seen < revision);
            let (_, gone) = seen.revisions.get(at)?;
            let more = if seen.taken.contains(token) {
                ttl
            } else {
                Duration::ZERO
            };
            Some((*token, *gone + more))
        };
        gone.iter().filter_map(deadline).collect()
    }

    /// Takes the snapshots that lie in the folder.
    ///
    /// # Errors
    ///
    /// Those of the folder.
    pub fn look_at_files(&self) -> io::Result<()> {
        let mut seen = self.seen();
        for entry in std::fs::read_dir(&self.deltas)? {
            let Ok(name) = entry?.file_name().into_string() else {
                continue;
            };
            if name.ends_with(".tmp") || seen.files.contains_key(&name) {
                continue;
            }
            // Removed meanwhile: then no chain names it.
            if let Ok(meta) = std::fs::metadata(self.deltas.join(&name)) {
                seen.files.insert(name, meta.modified()?);
            }
        }
        Ok(())
    }

    /// Returns the snapshots that were ever seen, and when each was written.
    #[must_use]
    pub fn files(&self) -> BTreeMap<String, SystemTime> {
        self.seen().files.clone()
    }

    /// Returns the revision of etcd now, or where it cannot be reached of the last commit.
    ///
    /// # Cancel safety
    ///
    /// Cancel safe: it only reads.
    pub async fn revision(&self) -> i64 {
        let read = self.read().await.ok();
        let now = read.and_then(|read| Some(read.header()?.revision()));
        now.unwrap_or_else(|| self.seen().last.map_or(0, |(revision, _)| revision))
    }

    /// Returns when a commit of a higher revision was seen, if one was by now.
    #[must_use]
    pub fn commit_after(&self, revision: i64) -> Option<Duration> {
        let (last, at) = self.seen().last?;
        (last > revision).then_some(at)
    }

    fn seen(&self) -> MutexGuard<'_, Seen> {
        self.seen.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_leader_must_have_stopped_when_its_key_is_seen_gone_or_its_lease_would_have_ended() {
        let (link, keys) = (Link::new(&[]), Keys::new("loop"));
        let witness = Witness::new(link, keys, PathBuf::new());
        let second = Duration::from_secs;
        witness.seen().revisions = vec![(3, second(1)), (8, second(2)), (9, second(3))];
        witness.takes(5);
        let gone = BTreeMap::from([(1, 3), (2, 4), (5, 9), (6, 10)]);
        let deadlines = witness.deadlines(&gone, second(10));
        // The last was not seen: nothing is known of it.
        let known = BTreeMap::from([(1, second(1)), (2, second(2)), (5, second(13))]);
        assert_eq!(deadlines, known);
    }
}
