//! SQLite: the fence is a row, raised first in the transaction of the effect.
//!
//! **Promise.** No entry of a lower token is committed once a higher one was seen, by
//! whichever process has the file open: [`raise`] and [`append`] update the fence's row
//! before anything else, and the effect is in the same transaction. Where the update hits
//! no row, nothing happens. A new leader raises first and reads then; what it has read is
//! final.
//!
//! **Isolation.** `BEGIN IMMEDIATE`: SQLite has one writer at a time. With a plain `BEGIN`
//! two writers read first, and one of them fails at its first write. Durable with
//! `synchronous = FULL` (in WAL mode too), which [`open`] sets. A local file system: on
//! network ones SQLite's locks may not hold.
//!
//! **Unknown outcome.** A failed `COMMIT`, or a process that ended in it. Repeat the same
//! [`append`]: its id is unique, so that the entry is there once. A process that is
//! stopped within the transaction keeps the lock: others get [`WriteError::Failed`] (busy)
//! until it goes on or ends, so leave nothing slow between `BEGIN` and `COMMIT`.

use std::path::Path;
use std::time::Duration;

use fencing::Token;
use rusqlite::{Connection, OptionalExtension, Transaction, TransactionBehavior, params};

use crate::write::{Entry, WriteError, check, check_scope, refusal};

/// How long a call waits for another one's transaction.
const BUSY_WAIT: Duration = Duration::from_secs(5);

/// The number is text of a fixed width: SQLite's integers end at half of `u64`.
const SCHEMA: &str = "
    BEGIN IMMEDIATE;
    CREATE TABLE IF NOT EXISTS fence (
        resource TEXT PRIMARY KEY, scope TEXT NOT NULL, number TEXT NOT NULL) STRICT;
    CREATE TABLE IF NOT EXISTS journal (
        position INTEGER PRIMARY KEY AUTOINCREMENT, resource TEXT NOT NULL,
        scope TEXT NOT NULL, number TEXT NOT NULL, id TEXT NOT NULL, value BLOB NOT NULL,
        UNIQUE (resource, id)) STRICT;
    COMMIT;";

const RAISE: &str = "
    INSERT INTO fence (resource, scope, number) VALUES (?1, ?2, ?3)
    ON CONFLICT (resource) DO UPDATE SET number = excluded.number
        WHERE fence.scope = excluded.scope AND fence.number <= excluded.number";

/// Opens the file and makes what is missing.
///
/// # Errors
///
/// Those of SQLite.
pub fn open(path: impl AsRef<Path>) -> rusqlite::Result<Connection> {
    let connection = Connection::open(path)?;
    connection.busy_timeout(BUSY_WAIT)?;
    connection.pragma_update(None, "synchronous", "FULL")?;
    connection.execute_batch(SCHEMA)?;
    Ok(connection)
}

/// Refuses lower tokens from here on, and writes nothing.
///
/// # Errors
///
/// Those of [`append`].
pub fn raise(db: &mut Connection, resource: &str, token: &Token) -> Result<(), WriteError> {
    let transaction = admit(db, resource, token)?;
    transaction.commit().map_err(unknown)
}

/// Appends an entry to the journal, once for each `id`.
///
/// # Errors
///
/// See [`WriteError`].
pub fn append(
    db: &mut Connection,
    resource: &str,
    token: &Token,
    id: &str,
    value: &[u8],
) -> Result<(), WriteError> {
    let transaction = admit(db, resource, token)?;
    // Your effect here. Whatever it is, an id that is unique makes it happen once.
    let is_new = transaction
        .execute(
            "INSERT INTO journal (resource, scope, number, id, value)
             VALUES (?1, ?2, ?3, ?4, ?5) ON CONFLICT (resource, id) DO NOTHING",
            params![resource, token.scope(), width(token.number()), id, value],
        )
        .map_err(failed)?;
    if is_new == 0 {
        let sql = "SELECT value FROM journal WHERE resource = ?1 AND id = ?2";
        let found: Vec<u8> = transaction
            .query_row(sql, params![resource, id], |row| row.get(0))
            .map_err(failed)?;
        if found != value {
            return Err(WriteError::reused());
        }
    }
    transaction.commit().map_err(unknown)
}

/// Forgets the mark and admits tokens of `scope`: the operator's step after the store of
/// the tokens was rebuilt, once no holder of an older token is left.
///
/// # Errors
///
/// See [`WriteError`].
pub fn reset(db: &mut Connection, resource: &str, scope: &str) -> Result<(), WriteError> {
    check_scope(scope)?;
    let sql = "INSERT OR REPLACE INTO fence (resource, scope, number) VALUES (?1, ?2, ?3)";
    db.execute(sql, params![resource, scope, width(0)])
        .map_err(unknown)?;
    Ok(())
}

/// Reads the whole journal, in the order in which it was written.
///
/// # Errors
///
/// Those of SQLite.
pub fn entries(db: &Connection, resource: &str) -> rusqlite::Result<Vec<Entry>> {
    let sql = "SELECT scope, number, id, value FROM journal
               WHERE resource = ?1 ORDER BY position";
    let mut statement = db.prepare(sql)?;
    let rows = statement.query_map([resource], |row| {
        let (scope, number) = (row.get::<_, String>(0)?, row.get::<_, String>(1)?);
        let token = Token::scoped(scope, number.parse().unwrap_or(u64::MAX));
        Ok(Entry::new(
            token,
            row.get::<_, String>(2)?,
            row.get::<_, Vec<u8>>(3)?,
        ))
    })?;
    rows.collect()
}

/// Begins the transaction of an effect: nothing in it happens unless it is committed, and
/// it rolls back when it is dropped.
fn admit<'a>(
    db: &'a mut Connection,
    resource: &str,
    token: &Token,
) -> Result<Transaction<'a>, WriteError> {
    check(token)?;
    let begin = TransactionBehavior::Immediate;
    let transaction = db.transaction_with_behavior(begin).map_err(failed)?;
    let raise = params![resource, token.scope(), width(token.number())];
    if transaction.execute(RAISE, raise).map_err(failed)? == 1 {
        return Ok(transaction);
    }
    let sql = "SELECT scope, number FROM fence WHERE resource = ?1";
    let seen = |row: &rusqlite::Row<'_>| Ok((row.get::<_, String>(0)?, row.get::<_, String>(1)?));
    let seen = transaction.query_row(sql, [resource], seen).optional();
    let (scope, number) = seen.map_err(failed)?.unwrap_or_default();
    Err(refusal(token, &scope, number.parse().unwrap_or(u64::MAX)))
}

/// Text whose order is that of the numbers.
fn width(number: u64) -> String {
    format!("{number:020}")
}

fn failed(error: rusqlite::Error) -> WriteError {
    WriteError::Failed(error.into())
}

fn unknown(error: rusqlite::Error) -> WriteError {
    WriteError::Unknown(error.into())
}
