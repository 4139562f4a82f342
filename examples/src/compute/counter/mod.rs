//! What a compute node knows, and what it does on each command.

use std::path::PathBuf;

use crate::compute::snapshot;
use crate::compute::snapshots::Files;
use crate::count::Counts;
use crate::input::{Parts, ShardReader};
use crate::store::clean::delta_name;
use crate::wire::{
    Barrier, Command, Epoch, Position, Progress, Reply, Reset, ResetDone, Snapshot, command, reply,
};

/// Bytes read at once: how long a barrier waits for the chunk under way.
const CHUNK: usize = 64 * 1024;

/// The state of one node: its shards' positions and the counts since the last barrier.
#[derive(Debug)]
pub struct Counter {
    worker: String,
    input: Parts,
    deltas: PathBuf,
    /// The last barrier or reset; none before the first reset.
    last: Option<Epoch>,
    /// The assigned shards; the one at `current` is being read.
    shards: Vec<ShardReader>,
    current: usize,
    counts: Counts,
    rows: u64,
    bytes: u64,
    quota: u64,
    /// Why the input cannot be read; final until a reset.
    input_failed: Option<String>,
    buffer: Vec<u8>,
}

impl Counter {
    /// Makes a node that knows nothing yet; its delta files go to `deltas`.
    #[must_use]
    pub fn new(worker: &str, input: impl Into<Parts>, deltas: PathBuf) -> Self {
        Self {
            worker: worker.to_owned(),
            input: input.into(),
            deltas,
            last: None,
            shards: Vec::new(),
            current: 0,
            counts: Counts::default(),
            rows: 0,
            bytes: 0,
            quota: 0,
            input_failed: None,
            buffer: vec![0; CHUNK],
        }
    }

    /// Returns the files that it writes.
    pub(super) fn files(&self) -> Files {
        Files::new(&self.worker, self.deltas.clone())
    }

    /// Carries out one command and returns its answer.
    pub fn command(&mut self, command: Command) -> Reply {
        let Some(epoch) = command.epoch else {
            return refuse(None, "a command without an epoch");
        };
        let kind = match command.kind {
            Some(command::Kind::Reset(reset)) => self.reset(epoch, reset),
            Some(command::Kind::Barrier(barrier)) => self.barrier(epoch, barrier),
            None => return refuse(Some(epoch), "a command of an unknown kind"),
        };
        match kind {
            Ok(kind) => Reply {
                epoch: Some(epoch),
                kind: Some(kind),
            },
            Err(why) => refuse(Some(epoch), &why),
        }
    }

    /// Forgets its shards and what was counted since the last barrier: its controller
    /// is gone, and the next one begins with a reset.
    pub fn stop(&mut self) {
        self.last = None;
        self.shards.clear();
        self.current = 0;
        self.quota = 0;
        self.input_failed = None;
        self.counts.clear();
        (self.rows, self.bytes) = (0, 0);
    }

    /// Says whether a call of [`step`](Self::step) would read something.
    #[must_use]
    pub fn has_work(&self) -> bool {
        self.quota > 0 && !self.is_finished() && self.input_failed.is_none()
    }

    /// Reads and counts one chunk.
    pub fn step(&mut self) {
        let Some(reader) = self.shards.get_mut(self.current) else {
            return;
        };
        let most = self
            .buffer
            .len()
            .min(usize::try_from(self.quota).unwrap_or(usize::MAX));
        let counts = &mut self.counts;
        match reader.read(&mut self.buffer[..most], |word| counts.add(word)) {
            Ok(chunk) => {
                self.rows += chunk.iter().filter(|&&byte| byte == b'\n').count() as u64;
                self.bytes += chunk.len() as u64;
                self.quota -= chunk.len() as u64;
            }
            Err(error) => self.input_failed = Some(error.to_string()),
        }
        self.skip_done();
    }

    /// Returns how far it has come since the last barrier.
    #[must_use]
    pub fn progress(&self) -> Progress {
        Progress {
            bytes: self.bytes,
            since: self.last,
            waiting: !self.has_work(),
            finished: self.is_finished(),
        }
    }

    fn is_finished(&self) -> bool {
        self.current >= self.shards.len()
    }

    fn skip_done(&mut self) {
        while self
            .shards
            .get(self.current)
            .is_some_and(ShardReader::is_done)
        {
            self.current += 1;
        }
    }

    fn reset(&mut self, epoch: Epoch, reset: Reset) -> Result<reply::Kind, String> {
        let plan = self.input.plan(&reset.parts);
        let plan = plan.map_err(|error| format!("the input cannot be read: {error}"))?;
        let readers = reset.positions.iter().map(|position| {
            let reader = plan.reader(position);
            reader.ok_or_else(|| format!("the plan has no shard {}", position.shard))
        });
        self.shards = readers.collect::<Result<_, _>>()?;
        self.current = 0;
        self.input_failed = None;
        self.begin(epoch, reset.quota_bytes);
        self.skip_done();
        Ok(reply::Kind::ResetDone(ResetDone {}))
    }

    fn barrier(&mut self, epoch: Epoch, barrier: Barrier) -> Result<reply::Kind, String> {
        let prev = barrier.prev.unwrap_or(Epoch::START);
        match self.last {
            Some(last) if last == prev => {}
            Some(last) => return Err(format!("its last barrier is {last}, not {prev}")),
            None => return Err("it has restarted and knows nothing".to_owned()),
        }
        if let Some(why) = &self.input_failed {
            return Ok(reply::Kind::InputFailed(why.clone()));
        }
        let delta = if self.counts.is_empty() {
            None
        } else {
            let name = delta_name(epoch, &self.worker);
            let written = snapshot::write(&self.deltas, name, &self.counts);
            Some(written.map_err(|error| format!("its snapshot cannot be written: {error}"))?)
        };
        let snapshot = Snapshot {
            positions: self.positions(),
            delta,
            rows: self.rows,
            bytes: self.bytes,
        };
        self.begin(epoch, barrier.quota_bytes);
        Ok(reply::Kind::Snapshot(snapshot))
    }

    fn begin(&mut self, epoch: Epoch, quota: u64) {
        self.last = Some(epoch);
        self.quota = quota;
        self.counts.clear();
        (self.rows, self.bytes) = (0, 0);
    }

    fn positions(&self) -> Vec<Position> {
        self.shards.iter().map(ShardReader::position).collect()
    }
}

pub(super) fn refuse(epoch: Option<Epoch>, why: &str) -> Reply {
    Reply {
        epoch,
        kind: Some(reply::Kind::Refused(why.to_owned())),
    }
}

#[cfg(test)]
mod tests;
