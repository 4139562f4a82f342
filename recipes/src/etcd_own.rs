//! The etcd of the election itself: the fence is the leader's key.
//!
//! **Promise.** No entry is written once the leadership was given to another, resigned, or
//! ended by its lease, at the very moment: the transaction compares the create revision of
//! the leader's key, which is the token, and writes the entry, or does nothing at all. There
//! is no mark to raise: winning the election did it. What a new leader reads after its win
//! is final.
//!
//! **Isolation.** etcd's transactions are serializable and one follows the other. A wiped
//! etcd has lost the entries too. After a restore from a snapshot a key that was in it is
//! there again, with its revision, so the life of the store, which is half of the scope, is
//! compared as well: [`reset`] makes the next candidate write a new one.
//!
//! **Unknown outcome.** Any answer but a definite one, and a call that was dropped. Repeat
//! the same [`append`]: it writes its key only where there is none of that id, so the entry
//! is there once, and a late attempt finds it. No call waits longer than ten seconds.
//! `leader-election`'s example `guarded_commit` replaces one head instead.

use std::time::Duration;

use etcd_client::{
    Client, Compare, CompareOp, Error, GetOptions, KeyValue, SortOrder, SortTarget, Txn, TxnOp,
    TxnOpResponse, TxnResponse,
};
use fencing::Token;
use leader_election::{Leadership, etcd::EtcdElection};
use tokio::time::timeout;
use tonic::Code;

use crate::write::{Entry, WriteError, check, refusal};

/// How long an answer may take.
const LIMIT: Duration = Duration::from_secs(10);
/// Where `leader-election` keeps the life ids of a store, by the election's name.
const LIVES: &str = "leader-election/life/";

/// The leadership that writes.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Leader {
    /// The leader's key: `<name of the election>/<lease id>`.
    pub key: Vec<u8>,
    /// Its create revision, in the scope `<life of the store>/<name of the election>`.
    pub token: Token,
}

// ===== impl Leader =====

impl Leader {
    /// Takes key and token of a leadership of this election.
    #[must_use]
    pub fn new(election: &EtcdElection, leadership: &Leadership) -> Self {
        let token = Token::scoped(leadership.scope(), leadership.token());
        Self::from_parts(election.leader_key(leadership), token)
    }

    /// Puts together what another process has won.
    #[must_use]
    pub fn from_parts(key: impl Into<Vec<u8>>, token: Token) -> Self {
        let key = key.into();
        Self { key, token }
    }
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
    leader: &Leader,
    id: &str,
    value: &[u8],
) -> Result<(), WriteError> {
    let key = format!("{resource}/journal/{id}");
    let bytes = Entry::new(leader.token.clone(), id, value).to_bytes();
    // Your effect here. An entry that is there already stays, and is looked at.
    let effect = Txn::new()
        .when([Compare::create_revision(key.as_str(), CompareOp::Equal, 0)])
        .and_then([TxnOp::put(key.as_str(), bytes, None)])
        .or_else([TxnOp::get(key.as_str(), None)]);
    let done = guarded(etcd, leader, vec![TxnOp::txn(effect)]).await?;
    let Some(TxnOpResponse::Txn(effect)) = done.op_responses().pop() else {
        return Err(WriteError::Unknown("etcd answers something else".into()));
    };
    let found = keys(&effect).into_iter().flatten().next();
    match found.and_then(|found| Entry::read_all(found.value())?.pop()) {
        Some(entry) if entry.value != value => Err(WriteError::reused()),
        _ => Ok(()),
    }
}

/// Asks etcd whether a write would land now, and writes nothing.
///
/// # Errors
///
/// Those of [`append`].
///
/// # Cancel safety
///
/// Cancel safe.
pub async fn confirm(etcd: &Client, leader: &Leader) -> Result<(), WriteError> {
    guarded(etcd, leader, Vec::new()).await.map(drop)
}

/// Ends the life of the store: the operator's step after a restore from a snapshot. All
/// tokens of before are refused, and candidates campaign under a new scope.
///
/// # Errors
///
/// Those of etcd.
///
/// # Cancel safety
///
/// Dropping the future leaves the outcome unknown.
pub async fn reset(etcd: &Client, election: &str) -> Result<(), Error> {
    let life = format!("{LIVES}{election}");
    etcd.kv_client().delete(life, None).await.map(drop)
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

/// Does the operations if this leadership is not over.
async fn guarded(
    etcd: &Client,
    leader: &Leader,
    effects: Vec<TxnOp>,
) -> Result<TxnResponse, WriteError> {
    let token = &leader.token;
    // Zero would be the create revision of a key that is not there.
    check(token)?;
    let number = i64::try_from(token.number())
        .map_err(|_| WriteError::invalid("the token is no revision of etcd"))?;
    let (life, name) = token
        .scope()
        .split_once('/')
        .ok_or_else(|| WriteError::invalid("the scope is not that of an election in etcd"))?;
    let life_key = format!("{LIVES}{name}");
    let candidates = GetOptions::new()
        .with_prefix()
        .with_keys_only()
        .with_sort(SortTarget::Create, SortOrder::Ascend);
    let guarded = Txn::new()
        .when([
            Compare::create_revision(leader.key.as_slice(), CompareOp::Equal, number),
            Compare::value(life_key.as_str(), CompareOp::Equal, life),
        ])
        .and_then(effects)
        .or_else([
            TxnOp::get(life_key.as_str(), None),
            TxnOp::get(format!("{name}/"), Some(candidates)),
        ]);
    let answer = send(etcd, guarded).await?;
    if answer.succeeded() {
        return Ok(answer);
    }
    let mut seen = keys(&answer).into_iter();
    let (life, candidates) = (seen.next(), seen.next().unwrap_or_default());
    let life = life.and_then(|mut life| life.pop());
    let life = life.as_ref().map_or(&b""[..], KeyValue::value);
    let life = String::from_utf8_lossy(life);
    // Other elections, and data, may lie below the name; the oldest candidate leads.
    let is_candidate = |found: &&KeyValue| !found.key()[name.len() + 1..].contains(&b'/');
    let leader = candidates.iter().find(is_candidate);
    // Where nobody leads, this leadership was the last one.
    let last = leader.map_or(number, KeyValue::create_revision);
    Err(refusal(
        token,
        &format!("{life}/{name}"),
        last.unsigned_abs(),
    ))
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
fn keys(answer: &TxnResponse) -> Vec<Vec<KeyValue>> {
    let found = answer.op_responses().into_iter().map(|read| match read {
        TxnOpResponse::Get(mut read) => read.take_kvs(),
        _ => Vec::new(),
    });
    found.collect()
}
