//! What users ask for: prepared beside the rounds, in effect with a commit.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use tokio::task::JoinSet;

use super::lead::{Reign, Turn};
use crate::input::{InputPlan, find_files};
use crate::requests::{CLOSED, FINISHED, Request, RequestKind};
use crate::store::Output;
use crate::store::clean::part_name;
use crate::wire::{Applied, Manifest, Part};

/// Requests that one commit serves at the most: a transaction of etcd has a limit.
const MAX_APPLIED: usize = 32;

/// The requests of a reign, each prepared once.
#[derive(Debug, Default)]
pub(super) struct Additions {
    preparing: JoinSet<(Request, Result<Prepared, String>)>,
    known: BTreeSet<String>,
    ready: Vec<(Request, Prepared)>,
    refused: BTreeMap<String, String>,
    made: u64,
}

/// A request that may be committed.
#[derive(Debug, Default)]
struct Prepared {
    /// The part of the input that it adds, with the number of its shards.
    part: Option<(Part, usize)>,
    says: String,
}

impl Reign<'_> {
    /// Looks at what is asked for; nothing here waits for a disk.
    pub(super) async fn take_requests(&mut self) {
        let open = self.meta.requests.open();
        for request in &open {
            if self.additions.known.insert(request.id.clone()) {
                self.prepare(request.clone());
            }
        }
        let is_open = |request: &Request| open.iter().any(|other| other == request);
        while let Some(done) = self.additions.preparing.try_join_next() {
            match done {
                Ok((request, Ok(prepared))) => self.additions.ready.push((request, prepared)),
                Ok((request, Err(why))) => {
                    self.additions.refused.insert(request.id, why);
                }
                Err(error) => self.meta.hindered(&format!("a request died: {error}")),
            }
        }
        // One that was withdrawn leaves nothing behind.
        let output = self.meta.ledger.output();
        self.additions.ready.retain(|(request, prepared)| {
            let stays = is_open(request);
            if let (false, Some((part, _))) = (stays, &prepared.part) {
                output.remove_part(&part.name);
            }
            stays
        });
        self.refuse(&open).await;
    }

    /// Answers what cannot be done, and what comes after the end.
    async fn refuse(&self, open: &[Request]) {
        for request in open {
            let is_late = self.head.closed && request.kind != RequestKind::Finish;
            let refused = self.additions.refused.get(&request.id).map(String::as_str);
            if let Some(why) = is_late.then_some(CLOSED).or(refused) {
                self.meta.requests.refuse(request, why).await;
            }
        }
    }

    fn prepare(&mut self, request: Request) {
        self.additions.made += 1;
        let name = part_name(self.token, self.additions.made);
        let output = self.meta.ledger.output().clone();
        self.additions.preparing.spawn_blocking(move || {
            let prepared = match &request.kind {
                RequestKind::Add(path) => prepare(path, &name, &output),
                RequestKind::Finish => Ok(Prepared {
                    part: None,
                    says: FINISHED.to_owned(),
                }),
            };
            (request, prepared)
        });
    }

    /// Returns `plain` with the requests that can be served now.
    pub(super) fn with_additions(&mut self, plain: &Manifest) -> Result<Manifest, Turn> {
        let mut manifest = plain.clone();
        let mut room = self.room();
        self.waits.clear();
        for (request, prepared) in &self.additions.ready {
            if manifest.applied.len() == MAX_APPLIED {
                break;
            }
            if let Some((part, shards)) = &prepared.part {
                if manifest.closed {
                    continue;
                }
                if *shards > room {
                    self.waits = self.missing_room(request, *shards);
                    continue;
                }
                room -= shards;
                manifest.parts.push(part.clone());
            }
            manifest.closed |= request.kind == RequestKind::Finish;
            manifest.applied.push(Applied {
                id: request.id.clone(),
                revision: request.revision,
                lease: request.lease,
                says: prepared.says.clone(),
            });
        }
        self.complete(&mut manifest)?;
        Ok(manifest)
    }

    /// Forgets the requests that are committed; says what was added.
    pub(super) fn applied(&mut self) -> Option<String> {
        let applied = &self.head.applied;
        let mut added = Vec::new();
        self.additions.ready.retain(|(request, prepared)| {
            let is_applied = applied.iter().any(|applied| applied.id == request.id);
            if is_applied && prepared.part.is_some() {
                added.push(request.kind.to_string());
            }
            !is_applied
        });
        (!added.is_empty()).then(|| added.join(", "))
    }

    /// Ends with the chain: what came too late is refused, and leaves nothing behind.
    pub(super) async fn drop_requests(&mut self) {
        self.refuse(&self.meta.requests.open()).await;
        let mut made = std::mem::take(&mut self.additions.ready);
        while let Some(done) = self.additions.preparing.join_next().await {
            if let Ok((request, Ok(prepared))) = done {
                made.push((request, prepared));
            }
        }
        let output = self.meta.ledger.output();
        let parts = made.iter().filter_map(|(_, made)| made.part.as_ref());
        for (part, _) in parts.filter(|(part, _)| !self.head.parts.contains(part)) {
            output.remove_part(&part.name);
        }
    }

    /// Returns how many more shards the workers that are up can hold.
    fn room(&self) -> usize {
        let roster = self.roster.borrow();
        let up = roster.iter().filter(|(w, _)| self.session(w).is_some());
        let slots = up.fold(0_usize, |sum, (_, place)| sum.saturating_add(place.slots));
        slots.saturating_sub(self.open_shards())
    }

    fn missing_room(&self, request: &Request, shards: usize) -> String {
        let roster = self.roster.borrow();
        let away = roster.keys().filter(|w| self.session(w).is_none());
        let away: Vec<String> = away
            .map(|worker| match self.pool.state(worker) {
                Some(state) => format!("{worker} ({state})"),
                None => worker.to_string(),
            })
            .collect();
        let missing = if away.is_empty() {
            "no worker is missing: start one more".to_owned()
        } else {
            format!("missing: {}", away.join(", "))
        };
        format!(
            "{} waits for a worker with room for {shards} shards; {missing}",
            request.kind
        )
    }
}

fn prepare(path: &Path, name: &str, output: &Output) -> Result<Prepared, String> {
    let found = find_files(&[path.to_owned()], Some(output.folder()), false)
        .map_err(|error| error.to_string())?;
    let files = found.len();
    let plan = InputPlan::new(found).map_err(|error| error.to_string())?;
    let shards = plan.stored().shards.len();
    let part = output.write_part(name, plan.stored());
    let part = part.map_err(|error| error.to_string())?;
    let bytes = plan.total_bytes();
    Ok(Prepared {
        part: Some((part, shards)),
        says: format!("{}: {files} files, {bytes} bytes", path.display()),
    })
}
