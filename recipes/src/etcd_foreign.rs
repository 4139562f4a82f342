//! An etcd that is not the one of the election: the fence is a key, compared and raised in
//! the transaction of the effect.
//!
//! **Promise.** No entry of a lower token is written once a higher one was seen: the
//! transaction compares the fence's scope and number, raises the number and writes the
//! entry, or does nothing at all. A new leader raises first and reads then; what it has read
//! is final.
//!
//! **Isolation.** etcd's transactions are serializable and one follows the other. Numbers
//! are text of a fixed width, because etcd compares bytes. After a restore of *this* etcd
//! from a snapshot the fence has forgotten what came later: [`reset`] it to a new scope.
//!
//! **Unknown outcome.** Any answer but a definite one, and a call that was dropped. Repeat
//! the same [`append`]: it writes its key only where there is none of that id, so the entry
//! is there once, and a late attempt finds it. No call waits longer than ten seconds.

use std::time::Duration;

use etcd_client::{
    Client, Compare, CompareOp, Error, GetOptions, KeyValue, SortOrder, SortTarget, Txn, TxnOp,
    TxnOpResponse, TxnResponse,
};
use fencing::Token;
use tokio::time::timeout;
use tonic::Code;

use crate::write::{Entry, WriteError, check, check_scope, refusal};

/// How long an answer may take.
const LIMIT: Duration = Duration::from_secs(10);

/// Refuses lower tokens from here on, and writes nothing.
///
/// # Errors
///
/// Those of [`append`].
///
/// # Cancel safety
///
/// Dropping the future leaves the outcome unknown.
pub async fn raise(etcd: &Client, resource: &str, token: &Token) -> Result<(), WriteError> {
    fenced(etcd, resource, token, None).await.map(drop)
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
    etcd: &Client,
    resource: &str,
    token: &Token,
    id: &str,
    value: &[u8],
) -> Result<(), WriteError> {
    let key = format!("{resource}/journal/{id}");
    let bytes = Entry::new(token.clone(), id, value).to_bytes();
    // Your effect here. An entry that is there already stays, and is looked at.
    let effect = Txn::new()
        .when([Compare::create_revision(key.as_str(), CompareOp::Equal, 0)])
        .and_then([TxnOp::put(key.as_str(), bytes, None)])
        .or_else([TxnOp::get(key.as_str(), None)]);
    let done = fenced(etcd, resource, token, Some(TxnOp::txn(effect))).await?;
    let Some(TxnOpResponse::Txn(effect)) = done.op_responses().pop() else {
        return Err(WriteError::Unknown("etcd answers something else".into()));
    };
    let found = keys(&effect).pop().flatten();
    match found.and_then(|found| Entry::read_all(found.value())?.pop()) {
        Some(entry) if entry.value != value => Err(WriteError::reused()),
        _ => Ok(()),
    }
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
pub async fn reset(etcd: &Client, resource: &str, scope: &str) -> Result<(), WriteError> {
    check_scope(scope)?;
    send(etcd, Txn::new().and_then(mark(resource, scope, 0))).await?;
    Ok(())
}

/// Reads the whole journal, in the order in which it was written.
///
/// # Errors
///
/// Those of etcd.
///
/// # Cancel safety
///
/// Cancel safe.
pub async fn entries(etcd: &Client, resource: &str) -> Result<Vec<Entry>, Error> {
    let options = GetOptions::new()
        .with_prefix()
        .with_sort(SortTarget::Mod, SortOrder::Ascend);
    let key = format!("{resource}/journal/");
    let read = etcd.kv_client().get(key, Some(options)).await?;
    let entries = read
        .kvs()
        .iter()
        .filter_map(|found| Entry::read_all(found.value()));
    Ok(entries.flatten().collect())
}

/// Does the operation if the token is not stale, and keeps lower ones out.
async fn fenced(
    etcd: &Client,
    resource: &str,
    token: &Token,
    effect: Option<TxnOp>,
) -> Result<TxnResponse, WriteError> {
    check(token)?;
    let (scope, number) = (scope_key(resource), number_key(resource));
    // What is not longer and comes before this text is at most the number.
    let above = format!("{:020}\0", token.number());
    let raise = TxnOp::put(number.as_str(), format!("{:020}", token.number()), None);
    let guarded = Txn::new()
        .when([
            Compare::value(scope.as_str(), CompareOp::Equal, token.scope()),
            Compare::value(number.as_str(), CompareOp::Less, above),
        ])
        .and_then([raise].into_iter().chain(effect).collect::<Vec<_>>())
        .or_else([
            TxnOp::get(scope.as_str(), None),
            TxnOp::get(number.as_str(), None),
        ]);
    loop {
        let answer = send(etcd, guarded.clone()).await?;
        if answer.succeeded() {
            return Ok(answer);
        }
        let mut seen = keys(&answer).into_iter().flatten();
        if let (Some(scope), Some(number)) = (seen.next(), seen.next()) {
            let highest = number.value_str().ok().and_then(|text| text.parse().ok());
            let scope = String::from_utf8_lossy(scope.value()).into_owned();
            return Err(refusal(token, &scope, highest.unwrap_or(u64::MAX)));
        }
        // Nothing was seen yet: the first one sets the scope, then all try.
        let first = Txn::new()
            .when([Compare::create_revision(
                scope.as_str(),
                CompareOp::Equal,
                0,
            )])
            .and_then(mark(resource, token.scope(), 0));
        send(etcd, first).await?;
    }
}

async fn send(etcd: &Client, transaction: Txn) -> Result<TxnResponse, WriteError> {
    // Boxed: the calls of the client are large futures.
    let mut etcd = etcd.kv_client();
    let answer = timeout(LIMIT, Box::pin(etcd.txn(transaction)));
    match answer.await {
        Ok(Ok(answer)) => Ok(answer),
        Ok(Err(Error::GRpcStatus(status)))
            if [Code::InvalidArgument, Code::PermissionDenied].contains(&status.code()) =>
        {
            Err(WriteError::Failed(status.into()))
        }
        Ok(Err(error)) => Err(WriteError::Unknown(error.into())),
        Err(late) => Err(WriteError::Unknown(late.into())),
    }
}

/// What the reads of an answer have found.
fn keys(answer: &TxnResponse) -> Vec<Option<KeyValue>> {
    let found = answer.op_responses().into_iter().map(|read| match read {
        TxnOpResponse::Get(mut read) => read.take_kvs().pop(),
        _ => None,
    });
    found.collect()
}

fn mark(resource: &str, scope: &str, number: u64) -> [TxnOp; 2] {
    [
        TxnOp::put(scope_key(resource), scope, None),
        TxnOp::put(number_key(resource), format!("{number:020}"), None),
    ]
}

fn scope_key(resource: &str) -> String {
    format!("{resource}/fence/scope")
}

fn number_key(resource: &str) -> String {
    format!("{resource}/fence/number")
}
