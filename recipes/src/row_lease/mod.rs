//! A lease that is a row of SQL: who leads, where there is a database and no etcd.
//!
//! **Promise.** At most one lease is alive at any instant, and its token is above all
//! earlier ones. No wall clock is read and no two clocks are compared: a candidate takes the
//! lease once the row has stood still for a TTL by the candidate's *own* clock, which began
//! after it had read the row. A holder counts from before its renewal was sent. So the
//! holder is over first, whatever the way takes, as long as the clocks' rates differ by less
//! than 0.1 %. This is how candidates for a Kubernetes `Lease` wait as well.
//!
//! **Isolation.** Each step is one statement that names what it replaces. SQLite here, with
//! [`open`]; the same statements do on PostgreSQL or MySQL under `READ COMMITTED`.
//!
//! **Unknown outcome.** A take or renewal that failed may be in place. A renewal is repeated,
//! or not: the deadline is that of the last one that was confirmed. A take is not repeated:
//! a row that was taken without its taker's knowledge stands still, and is taken anew.
//!
//! Put [`fencing::Guard`] behind it: `watchdog.guard(lease.token, lease.deadline)`, and
//! `guard.extend(..)` with what [`Lease::renew`] returns, [`None`] being `guard.trip()`.

use std::path::Path;
use std::time::Duration;

use rusqlite::{Connection, OptionalExtension, params};

const SCHEMA: &str = "
    CREATE TABLE IF NOT EXISTS lease (
        name TEXT PRIMARY KEY, holder TEXT NOT NULL, ttl_ms INTEGER NOT NULL,
        token INTEGER NOT NULL, renewals INTEGER NOT NULL, is_free INTEGER NOT NULL) STRICT";

/// Nobody has it: the token goes on from what was there.
const TAKE: &str = "
    INSERT INTO lease (name, holder, ttl_ms, token, renewals, is_free) VALUES (?1, ?2, ?3, 1, 0, 0)
    ON CONFLICT (name) DO UPDATE SET holder = excluded.holder, ttl_ms = excluded.ttl_ms,
        token = lease.token + 1, renewals = 0, is_free = 0
        WHERE lease.token = ?4 AND lease.renewals = ?5
    RETURNING token";

const RENEW: &str = "
    UPDATE lease SET renewals = renewals + 1 WHERE name = ?1 AND token = ?2 AND is_free = 0";

const RELEASE: &str = "
    UPDATE lease SET is_free = 1, renewals = renewals + 1 WHERE name = ?1 AND token = ?2";

/// One who wants the lease.
#[derive(Debug)]
pub struct Candidate {
    name: String,
    holder: String,
    ttl: Duration,
    clock: fn() -> Duration,
    /// What the row was, and since when it has stood still.
    seen: Option<(Row, Duration)>,
}

/// A lease that was taken.
#[derive(Debug)]
#[non_exhaustive]
pub struct Lease {
    /// Above the tokens of all earlier leases of this name.
    pub token: u64,
    /// Time since boot by which work must have stopped, as long as nothing is renewed.
    pub deadline: Duration,
    name: String,
    ttl: Duration,
    clock: fn() -> Duration,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Row {
    token: u64,
    renewals: u64,
    ttl_ms: u64,
    is_free: bool,
}

/// Opens the file and makes what is missing.
///
/// # Errors
///
/// Those of SQLite.
pub fn open(path: impl AsRef<Path>) -> rusqlite::Result<Connection> {
    let db = Connection::open(path)?;
    db.busy_timeout(Duration::from_secs(1))?;
    db.pragma_update(None, "synchronous", "FULL")?;
    db.execute_batch(SCHEMA)?;
    Ok(db)
}

// ===== impl Candidate =====

impl Candidate {
    /// Wants the lease of this name, each time for `ttl`; `holder` is for people to read.
    #[must_use]
    pub fn new(name: impl Into<String>, holder: impl Into<String>, ttl: Duration) -> Self {
        Self {
            name: name.into(),
            holder: holder.into(),
            ttl,
            clock: fencing::boot_time,
            seen: None,
        }
    }

    /// Takes the lease if it is free, or has stood still for its TTL; call it every so often.
    ///
    /// # Errors
    ///
    /// Those of SQLite. The lease may be taken all the same: see the head of this module.
    pub fn try_take(&mut self, db: &Connection) -> rusqlite::Result<Option<Lease>> {
        let row = self.read(db)?;
        // Read after the row: a renewal in it was sent before this.
        let now = (self.clock)();
        let since = match self.seen {
            Some((seen, since)) if row == Some(seen) => since,
            _ => now,
        };
        self.seen = row.map(|row| (row, since));
        let still = now.saturating_sub(since);
        if row.is_some_and(|row| !row.is_free && still < Duration::from_millis(row.ttl_ms)) {
            return Ok(None);
        }
        let ttl_ms = u64::try_from(self.ttl.as_millis()).unwrap_or(u64::MAX);
        let (token, renewals) = row.map_or((0, 0), |row| (row.token, row.renewals));
        let taken = params![self.name, self.holder, ttl_ms, token, renewals];
        let token = db.query_row(TAKE, taken, |row| row.get(0)).optional()?;
        Ok(token.map(|token| Lease {
            token,
            // Before the take was sent: the others count from later.
            deadline: fencing::deadline(now, self.ttl),
            name: self.name.clone(),
            ttl: self.ttl,
            clock: self.clock,
        }))
    }

    fn read(&self, db: &Connection) -> rusqlite::Result<Option<Row>> {
        let sql = "SELECT token, renewals, ttl_ms, is_free FROM lease WHERE name = ?1";
        let row = |row: &rusqlite::Row<'_>| {
            Ok(Row {
                token: row.get(0)?,
                renewals: row.get(1)?,
                ttl_ms: row.get(2)?,
                is_free: row.get(3)?,
            })
        };
        db.query_row(sql, [&self.name], row).optional()
    }
}

// ===== impl Lease =====

impl Lease {
    /// Renews the lease and returns the new deadline; `None` when somebody else has it.
    ///
    /// # Errors
    ///
    /// Those of SQLite: nothing is known, and the old deadline holds.
    pub fn renew(&mut self, db: &Connection) -> rusqlite::Result<Option<Duration>> {
        // Before the renewal is sent.
        let sent = (self.clock)();
        if db.execute(RENEW, params![self.name, self.token])? == 0 {
            return Ok(None);
        }
        self.deadline = fencing::deadline(sent, self.ttl);
        Ok(Some(self.deadline))
    }

    /// Gives the lease back, so that the next one takes it at once. Stop the work first.
    ///
    /// # Errors
    ///
    /// Those of SQLite: it is over after its TTL at the latest.
    pub fn release(self, db: &Connection) -> rusqlite::Result<()> {
        db.execute(RELEASE, params![self.name, self.token])?;
        Ok(())
    }
}

#[cfg(test)]
mod tests;
