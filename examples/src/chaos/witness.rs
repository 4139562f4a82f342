//! Looks at etcd and at the folder while the loop runs: when commits land, and which
//! snapshots appear, since those of lost barriers are removed later.

use std::collections::BTreeMap;
use std::io;
use std::path::PathBuf;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, SystemTime};

use tokio::time::{Instant, sleep};

use crate::etcd::{EtcdLedger, Keys, Link};

/// How often it looks.
const EVERY: Duration = Duration::from_millis(20);

/// How many looks at etcd there are for one at the folder.
const FILES_EVERY: u32 = 5;

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
            for _ in 0..FILES_EVERY {
                self.look().await;
                sleep(EVERY).await;
            }
        }
    }

    async fn look(&self) {
        let Ok((_, revision)) = EtcdLedger::head(&self.link, &self.keys).await else {
            return;
        };
        let now = self.now();
        let mut seen = self.seen();
        if revision > seen.last.map_or(0, |(last, _)| last) {
            seen.last = Some((revision, now));
        }
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
        let key = self.keys.head();
        let read = self
            .link
            .call(|mut client| async move { client.get(key, None).await });
        let now = read
            .await
            .ok()
            .and_then(|read| Some(read.header()?.revision()));
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
