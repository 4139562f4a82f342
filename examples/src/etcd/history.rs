//! What happened, from etcd's own history: every commit ever made, and who led by then.
//!
//! It needs every revision, so it fails on an etcd that was compacted.

use std::collections::BTreeMap;
use std::fmt;

use etcd_client::{Client, EventType, KeyValue, WatchOptions};
use prost::Message;

use super::keys::Keys;
use crate::wire::{Epoch, Manifest};

/// One version of the chain's head.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Commit {
    /// The revision of etcd at which it landed.
    pub revision: i64,
    /// What was committed.
    pub manifest: Manifest,
    /// The token of whoever led at that revision; zero for nobody.
    pub leader: u64,
}

/// All commits in the order in which they landed.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct History {
    /// The commits.
    pub commits: Vec<Commit>,
    /// What should never have happened, in words.
    pub violations: Vec<String>,
    /// Each token whose key went, and the revision at which it was gone.
    pub ends: BTreeMap<u64, i64>,
}

// ===== impl History =====

impl History {
    /// Reads the history up to now.
    ///
    /// # Errors
    ///
    /// Those of etcd, and a text where the history was compacted.
    ///
    /// # Cancel safety
    ///
    /// Cancel safe: it only reads.
    pub async fn read(
        client: &mut Client,
        keys: &Keys,
    ) -> Result<Self, Box<dyn std::error::Error + Send + Sync>> {
        let head = client.get(keys.head(), None).await?;
        let newest = head.kvs().first().map_or(0, KeyValue::mod_revision);
        let mut replay = Replay::new(keys);
        if newest == 0 {
            return Ok(replay.finish());
        }
        let options = WatchOptions::new().with_prefix().with_start_revision(1);
        let mut watch = client.watch(keys.all(), Some(options)).await?;
        // Events come in order: with the newest head all are there. Answers about progress
        // are no help, since older versions of etcd give them too early.
        loop {
            let Some(response) = watch.message().await? else {
                return Err("the watch of etcd's history ended".into());
            };
            if response.canceled() {
                return Err(format!("no history: {}", response.cancel_reason()).into());
            }
            for event in response.events() {
                let Some(kv) = event.kv() else { continue };
                replay.apply(event.event_type(), kv);
                if kv.key() == keys.head().as_bytes() && kv.mod_revision() >= newest {
                    return Ok(replay.finish());
                }
            }
        }
    }
}

/// The history as far as it was replayed.
struct Replay {
    head_key: String,
    leader_prefix: String,
    /// Keys of candidates by create revision: the lowest leads.
    candidates: BTreeMap<i64, Vec<u8>>,
    commits: Vec<Commit>,
    violations: Vec<String>,
    ends: BTreeMap<u64, i64>,
}

impl Replay {
    fn new(keys: &Keys) -> Self {
        Self {
            head_key: keys.head(),
            leader_prefix: keys.election() + "/",
            candidates: BTreeMap::new(),
            commits: Vec::new(),
            violations: Vec::new(),
            ends: BTreeMap::new(),
        }
    }

    fn apply(&mut self, kind: EventType, kv: &KeyValue) {
        if kv.key().starts_with(self.leader_prefix.as_bytes()) {
            match kind {
                EventType::Put => {
                    self.candidates
                        .insert(kv.create_revision(), kv.key().to_vec());
                }
                EventType::Delete => self.gone(kv),
            }
        } else if kv.key() == self.head_key.as_bytes() {
            match (kind, Manifest::decode(kv.value())) {
                (EventType::Put, Ok(manifest)) => self.commit(kv.mod_revision(), manifest),
                _ => self.violation(kv.mod_revision(), "the head was removed or damaged"),
            }
        }
    }

    fn commit(&mut self, revision: i64, manifest: Manifest) {
        let last = self.commits.last();
        let before = last.map_or(Epoch::START, |commit| commit.manifest.id());
        let has_ended = last.is_some_and(|commit| commit.manifest.last);
        let epoch = manifest.id();
        let leader = self.candidates.keys().next().copied().unwrap_or(0);
        let leader = u64::try_from(leader).unwrap_or(0);
        // A restored chain begins with what was committed under other tokens, and may take
        // the place of an older state of itself.
        let replaced = last.map_or(&[][..], |commit| &commit.manifest.replaces);
        let is_restored = epoch.term == 0 && manifest.replaces.len() > replaced.len();
        let checks = [
            (
                manifest.predecessor() != before && !is_restored,
                "does not follow",
            ),
            (
                epoch.order() <= before.order() && !is_restored,
                "is not above",
            ),
            (has_ended, "comes after the end at"),
        ];
        for (_, what) in checks.iter().filter(|(is_wrong, _)| *is_wrong) {
            self.violation(revision, &format!("epoch {epoch} {what} {before}"));
        }
        if leader != epoch.term && !is_restored {
            let text = format!("epoch {epoch} was committed while {leader} led");
            self.violation(revision, &text);
        }
        self.commits.push(Commit {
            revision,
            manifest,
            leader,
        });
    }

    fn gone(&mut self, kv: &KeyValue) {
        let ends = &mut self.ends;
        self.candidates.retain(|token, key| {
            let stays = key != kv.key();
            if let (false, Ok(token)) = (stays, u64::try_from(*token)) {
                ends.insert(token, kv.mod_revision());
            }
            stays
        });
    }

    fn violation(&mut self, revision: i64, what: &str) {
        self.violations.push(format!("revision {revision}: {what}"));
    }

    fn finish(self) -> History {
        History {
            commits: self.commits,
            violations: self.violations,
            ends: self.ends,
        }
    }
}

impl fmt::Display for History {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let terms = self.commits.iter().map(|commit| commit.manifest.id().term);
        let mut terms: Vec<u64> = terms.collect();
        terms.dedup();
        write!(
            f,
            "{} epochs committed under {} tokens, {} violations",
            self.commits.len(),
            terms.len(),
            self.violations.len()
        )
    }
}
