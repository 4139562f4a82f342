//! PostgreSQL: the fence is a row, raised first in the transaction of the effect.
//!
//! **Promise.** No entry of a lower token is committed once a higher one was seen:
//! [`raise`] and [`append`] update the fence's row before anything else, whose lock is held
//! until the end of the transaction, and the effect is in the same transaction. Where the
//! update hits no row, nothing happens. A new leader raises first and reads then; what it
//! has read is final.
//!
//! **Isolation.** `READ COMMITTED`, the default, is enough: the update waits for the row's
//! lock and then judges the newest row. At a higher level it fails with 40001 instead,
//! which is [`WriteError::Failed`]. `synchronous_commit` must be on, and a standby that
//! takes over must have every commit, or the fence forgets.
//!
//! **Unknown outcome.** A connection that broke before the answer to `COMMIT` came, no answer
//! within ten seconds, or a call that was dropped. Connect again and repeat the same [`append`]: an attempt that still runs holds the row's lock,
//! so the repetition waits for it, and the id is unique, so the entry is there once. A
//! client that is stopped within the transaction holds up the others, until the server
//! ends its session after `idle_in_transaction_session_timeout`: [`connect`] sets it.

use std::future::Future;
use std::time::Duration;

use fencing::Token;
use tokio::{task::JoinHandle, time::timeout};
use tokio_postgres::{Client, Config, Error, NoTls, Transaction, error::Severity};

use crate::write::{Entry, WriteError, check, check_scope, refusal};

/// How long a call may take.
const LIMIT: Duration = Duration::from_secs(10);
/// How long a session that does nothing may hold a row's lock.
const OPTIONS: &str = "-c idle_in_transaction_session_timeout=5s";

/// The number is text of a fixed width: PostgreSQL's integers end at half of `u64`.
/// The lock is for two that make the tables at the same time.
const SCHEMA: &str = r#"
    BEGIN;
    SELECT pg_advisory_xact_lock(7362);
    CREATE TABLE IF NOT EXISTS fence (
        resource text PRIMARY KEY, scope text NOT NULL, number text COLLATE "C" NOT NULL);
    CREATE TABLE IF NOT EXISTS journal (
        position bigserial PRIMARY KEY, resource text NOT NULL, scope text NOT NULL,
        number text NOT NULL, id text NOT NULL, value bytea NOT NULL, UNIQUE (resource, id));
    COMMIT"#;

const RAISE: &str = "
    INSERT INTO fence (resource, scope, number) VALUES ($1, $2, $3)
    ON CONFLICT (resource) DO UPDATE SET number = excluded.number
        WHERE fence.scope = excluded.scope AND fence.number <= excluded.number";

/// Connects, and makes what is missing. The task ends when the client is dropped, or the
/// connection breaks; abort it to end the session at once.
///
/// # Errors
///
/// Those of PostgreSQL.
///
/// # Cancel safety
///
/// Cancel safe.
pub async fn connect(config: &Config) -> Result<(Client, JoinHandle<()>), Error> {
    let (client, connection) = config.clone().options(OPTIONS).connect(NoTls).await?;
    // Why it ended is in the error of the call that it ends.
    let task = tokio::spawn(async move { drop(connection.await) });
    client.batch_execute(SCHEMA).await?;
    Ok((client, task))
}

/// Refuses lower tokens from here on, and writes nothing.
///
/// # Errors
///
/// Those of [`append`].
///
/// # Cancel safety
///
/// Dropping the future leaves the outcome unknown.
pub async fn raise(db: &mut Client, resource: &str, token: &Token) -> Result<(), WriteError> {
    within(async {
        let transaction = admit(db, resource, token).await?;
        transaction.commit().await.map_err(sort)
    })
    .await
}

/// Appends an entry to the journal, once for each `id`.
///
/// # Errors
///
/// See [`WriteError`].
///
/// # Cancel safety
///
/// Dropping the future leaves the outcome unknown.
pub async fn append(
    db: &mut Client,
    resource: &str,
    token: &Token,
    id: &str,
    value: &[u8],
) -> Result<(), WriteError> {
    within(async {
        let transaction = admit(db, resource, token).await?;
        // Your effect here. Whatever it is, an id that is unique makes it happen once.
        let sql = "INSERT INTO journal (resource, scope, number, id, value)
                   VALUES ($1, $2, $3, $4, $5) ON CONFLICT (resource, id) DO NOTHING";
        let (scope, number) = (token.scope(), width(token.number()));
        let is_new = transaction
            .execute(sql, &[&resource, &scope, &number, &id, &value])
            .await
            .map_err(sort)?;
        if is_new == 0 {
            let sql = "SELECT value FROM journal WHERE resource = $1 AND id = $2";
            let found = transaction.query_one(sql, &[&resource, &id]).await;
            if found.map_err(sort)?.get::<_, &[u8]>(0) != value {
                return Err(WriteError::reused());
            }
        }
        transaction.commit().await.map_err(sort)
    })
    .await
}

/// Forgets the mark and admits tokens of `scope`: the operator's step after the store of
/// the tokens was rebuilt, once no holder of an older token is left.
///
/// # Errors
///
/// See [`WriteError`].
///
/// # Cancel safety
///
/// Dropping the future leaves the outcome unknown.
pub async fn reset(db: &Client, resource: &str, scope: &str) -> Result<(), WriteError> {
    check_scope(scope)?;
    let sql = "INSERT INTO fence (resource, scope, number) VALUES ($1, $2, $3)
               ON CONFLICT (resource)
               DO UPDATE SET scope = excluded.scope, number = excluded.number";
    let number = width(0);
    let reset = async {
        db.execute(sql, &[&resource, &scope, &number])
            .await
            .map_err(sort)
    };
    within(reset).await.map(drop)
}

/// Reads the whole journal, in the order in which it was written.
///
/// # Errors
///
/// Those of PostgreSQL.
///
/// # Cancel safety
///
/// Cancel safe.
pub async fn entries(db: &Client, resource: &str) -> Result<Vec<Entry>, Error> {
    let sql = "SELECT scope, number, id, value FROM journal
               WHERE resource = $1 ORDER BY position";
    let rows = db.query(sql, &[&resource]).await?;
    let entry = |row: &tokio_postgres::Row| {
        let number = row.get::<_, &str>(1).parse().unwrap_or(u64::MAX);
        let token = Token::scoped(row.get::<_, &str>(0), number);
        Entry::new(token, row.get::<_, String>(2), row.get::<_, Vec<u8>>(3))
    };
    Ok(rows.iter().map(entry).collect())
}

/// Begins the transaction of an effect: nothing in it happens unless it is committed, and
/// it rolls back when it is dropped.
async fn admit<'a>(
    db: &'a mut Client,
    resource: &str,
    token: &Token,
) -> Result<Transaction<'a>, WriteError> {
    check(token)?;
    let transaction = db.transaction().await.map_err(sort)?;
    let (scope, number) = (token.scope(), width(token.number()));
    let raised = transaction
        .execute(RAISE, &[&resource, &scope, &number])
        .await;
    if raised.map_err(sort)? == 1 {
        return Ok(transaction);
    }
    let sql = "SELECT scope, number FROM fence WHERE resource = $1";
    let seen = transaction
        .query_one(sql, &[&resource])
        .await
        .map_err(sort)?;
    let highest = seen.get::<_, &str>(1).parse().unwrap_or(u64::MAX);
    Err(refusal(token, seen.get(0), highest))
}

async fn within<T>(call: impl Future<Output = Result<T, WriteError>>) -> Result<T, WriteError> {
    let late = |late: tokio::time::error::Elapsed| Err(WriteError::Unknown(late.into()));
    timeout(LIMIT, call).await.unwrap_or_else(late)
}

/// Text whose order is that of the numbers.
fn width(number: u64) -> String {
    format!("{number:020}")
}

/// An error that the session outlives is an answer; anything else may hide one.
fn sort(error: Error) -> WriteError {
    let severity = error
        .as_db_error()
        .and_then(|answer| answer.parsed_severity());
    match severity {
        Some(Severity::Error) => WriteError::Failed(error.into()),
        _ => WriteError::Unknown(error.into()),
    }
}
