//! The report at the end, as text.

use std::fmt::Write;
use std::time::Duration;

use crate::journal::Entries;
use crate::status::Status;
use crate::store::Snapshot;
use crate::totals::Totals;

/// What the report is made of.
#[derive(Debug)]
pub struct Summary<'a> {
    /// The last status.
    pub status: &'a Status,
    /// What happened.
    pub entries: &'a Entries,
    /// The chain at the end, earlier processes' epochs included.
    pub chain: &'a Snapshot,
    /// The result, where the chain has ended.
    pub totals: Option<&'a Totals>,
}

impl Summary<'_> {
    /// Returns the report, a line for each kind of fact.
    #[must_use]
    pub fn text(&self) -> String {
        let mut text = String::new();
        // Writing to a string cannot fail.
        let _ = self.write(&mut text);
        text
    }

    fn write(&self, out: &mut String) -> std::fmt::Result {
        self.write_counts(out)?;
        self.write_epochs(out)?;
        let entries = self.entries;
        let leaders = entries.leaders.iter();
        let leaders = leaders.map(|(token, name)| format!("{name} with token {token}"));
        list(out, "leaders", entries.leaders.len() as u64, leaders)?;
        let recoveries = entries.recoveries.iter().cloned();
        list(out, "recoveries", entries.recovered, recoveries)?;
        for (title, notes) in [
            ("kills", &entries.kills),
            ("late", &entries.late_commits),
            ("tried again", &entries.hindrances),
        ] {
            if !notes.is_empty() {
                list(out, title, notes.len() as u64, notes.iter().cloned())?;
            }
        }
        let dropped = &entries.dropped;
        writeln!(
            out,
            "dropped     answers of an older term {}, of an older generation {}, late {}, \
             duplicate {}, of an unknown round {}, not asked for {}",
            entries.older_term,
            dropped.older_generation,
            dropped.late,
            dropped.duplicate,
            dropped.unknown,
            entries.not_asked + dropped.not_a_target,
        )?;
        if let Some(peak) = peak_memory_mib() {
            writeln!(out, "memory      peak {peak} MiB")?;
        }
        match self.totals {
            Some(totals) => writeln!(out, "result      {}", verdict(totals)),
            None => Ok(()),
        }
    }

    fn write_counts(&self, out: &mut String) -> std::fmt::Result {
        let status = self.status;
        let (all, done) = (status.total_bytes, status.committed_bytes);
        writeln!(out, "input       {all} bytes, {done} committed")?;
        let Some(totals) = self.totals else {
            return Ok(());
        };
        let (words, distinct) = (totals.words, totals.distinct);
        writeln!(out, "words       {words}, {distinct} different")?;
        for (word, count) in &totals.top {
            writeln!(out, "  {count:>10}  {}", String::from_utf8_lossy(word))?;
        }
        Ok(())
    }

    fn write_epochs(&self, out: &mut String) -> std::fmt::Result {
        let latencies = &self.entries.latencies;
        writeln!(
            out,
            "epochs      {} in the chain, {} of them committed by this process; the last is {}",
            self.chain.epochs.len(),
            latencies.len(),
            self.chain.head.id()
        )?;
        if latencies.is_empty() {
            return Ok(());
        }
        let at = |percent| percentile(latencies, percent).as_secs_f64() * 1000.0;
        writeln!(
            out,
            "barriers    p50 {:.1} ms, p90 {:.1} ms, p99 {:.1} ms, max {:.1} ms to the commit",
            at(50),
            at(90),
            at(99),
            at(100)
        )
    }
}

/// Returns the most memory that this process has held, as the kernel counts it.
fn peak_memory_mib() -> Option<u64> {
    let status = std::fs::read_to_string("/proc/self/status").ok()?;
    let line = status
        .lines()
        .find_map(|line| line.strip_prefix("VmHWM:"))?;
    let kib: u64 = line.split_whitespace().next()?.parse().ok()?;
    Some(kib.div_ceil(1024))
}

fn verdict(totals: &Totals) -> String {
    match &totals.difference {
        Some(difference) => format!(
            "NOT EQUAL to a plain count: {:?} was counted {} times, and {} times plainly",
            String::from_utf8_lossy(&difference.word),
            difference.in_loop,
            difference.in_plain
        ),
        None if totals.is_compared => "equal to a plain count of the same input".to_owned(),
        None => "not compared".to_owned(),
    }
}

fn list(
    out: &mut String,
    title: &str,
    number: u64,
    notes: impl Iterator<Item = String>,
) -> std::fmt::Result {
    writeln!(out, "{title:<11} {number}")?;
    for note in notes {
        writeln!(out, "  {note}")?;
    }
    Ok(())
}

/// Returns the value that `percent` of `all` do not exceed; zero for none.
#[must_use]
pub fn percentile(all: &[Duration], percent: usize) -> Duration {
    let mut sorted = all.to_vec();
    sorted.sort_unstable();
    let rank = (sorted.len() * percent).div_ceil(100).max(1);
    sorted.get(rank - 1).copied().unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn percentiles_are_values_that_were_measured() {
        let all: Vec<Duration> = (1..=10).rev().map(Duration::from_millis).collect();
        let at = |percent| percentile(&all, percent).as_millis();
        assert_eq!([at(0), at(50), at(90), at(91), at(100)], [1, 5, 9, 10, 10]);
        assert_eq!(percentile(&[], 50), Duration::ZERO);
    }
}
