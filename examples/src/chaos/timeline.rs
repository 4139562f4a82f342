//! What was done and when, and when commits went on.

use std::collections::BTreeMap;
use std::fmt::{self, Write};
use std::time::Duration;

use super::fault::{Kind, Limits};

/// What shows that a fault happened: a count read from the kernel, a child, the proxy or etcd.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Proof {
    /// What was counted.
    pub what: String,
    /// How many; zero proves nothing.
    pub count: u64,
}

/// One fault that was tried. Times count from the start of the run.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Record {
    /// What went wrong.
    pub kind: Kind,
    /// Whom it concerned.
    pub target: String,
    /// When it began.
    pub began: Duration,
    /// When it was over.
    pub ended: Duration,
    /// That it happened.
    pub proof: Proof,
    /// When the next commit was seen, at the most; `None` where none was waited for in vain.
    pub resumed: Option<Duration>,
}

/// All faults, in order.
#[derive(Clone, Debug, Default)]
pub struct Timeline {
    records: Vec<Record>,
}

/// One kind of fault over a run.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Row {
    /// The kind.
    pub kind: Kind,
    /// How often it happened.
    pub count: usize,
    /// Longest time from its end to the next commit; `None` where none came.
    pub longest: Option<Duration>,
    /// The most that this may be.
    pub bound: Duration,
}

// ===== impl Proof =====

impl Proof {
    /// So many of something.
    #[must_use]
    pub fn new(count: u64, what: impl Into<String>) -> Self {
        Self {
            what: what.into(),
            count,
        }
    }
}

// ===== impl Record =====

impl Record {
    /// Returns how long after its end the next commit was seen.
    #[must_use]
    pub fn pause(&self) -> Option<Duration> {
        Some(self.resumed?.saturating_sub(self.ended))
    }
}

impl fmt::Display for Record {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (began, lasted) = (self.began, self.ended.saturating_sub(self.began));
        write!(
            f,
            "{:8.2}s  {:<20} {:<8} for {:5.2}s, {} {}, ",
            began.as_secs_f64(),
            self.kind,
            self.target,
            lasted.as_secs_f64(),
            self.proof.count,
            self.proof.what,
        )?;
        match self.pause() {
            Some(pause) => write!(f, "next commit {:.2}s later", pause.as_secs_f64()),
            None => f.write_str("no commit after it"),
        }
    }
}

// ===== impl Timeline =====

impl Timeline {
    /// Adds a fault.
    pub fn push(&mut self, record: Record) {
        self.records.push(record);
    }

    /// Returns the faults in order.
    #[must_use]
    pub fn records(&self) -> &[Record] {
        &self.records
    }

    /// Returns a line for each kind that was tried.
    #[must_use]
    pub fn rows(&self, limits: &Limits) -> Vec<Row> {
        let mut rows: BTreeMap<Kind, Row> = BTreeMap::new();
        for record in &self.records {
            let row = rows.entry(record.kind).or_insert(Row {
                kind: record.kind,
                count: 0,
                longest: Some(Duration::ZERO),
                bound: record.kind.bound(limits),
            });
            row.count += usize::from(record.proof.count > 0);
            row.longest = row.longest.zip(record.pause()).map(|(a, b)| a.max(b));
        }
        rows.into_values().collect()
    }

    /// Returns the faults that did not happen, in words.
    #[must_use]
    pub fn missing(&self) -> Vec<String> {
        let records = self.records.iter();
        let missing = records.filter(|record| record.proof.count == 0);
        missing
            .map(|record| format!("{} {}: 0 {}", record.kind, record.target, record.proof.what))
            .collect()
    }

    /// Returns the table of the kinds.
    #[must_use]
    pub fn table(&self, limits: &Limits) -> String {
        let mut text = format!(
            "{:<20} {:>6} {:>9} {:>9}\n",
            "fault", "count", "longest", "bound"
        );
        for row in self.rows(limits) {
            let longest = row.longest.map_or_else(
                || "never".to_owned(),
                |longest| format!("{:.2}s", longest.as_secs_f64()),
            );
            // Writing to a string cannot fail.
            let _ = writeln!(
                text,
                "{:<20} {:>6} {longest:>9} {:>8.2}s",
                row.kind,
                row.count,
                row.bound.as_secs_f64()
            );
        }
        text
    }
}
