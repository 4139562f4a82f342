//! The way back after etcd was rebuilt, empty or from an older snapshot: the chain is put
//! there again from the output folder.
//!
//! Tokens of a rebuilt etcd begin anew, under another scope, and so do terms: files and
//! epochs of the same names come again. So the restored chain begins with epochs of term
//! zero, which no leader has, and names the old files anew. It also names the scopes that
//! it replaces: by that a worker knows that its fence may take the new one.
//!
//! An etcd that holds an older state of itself goes on in its old scope, where it hands out
//! tokens again that others have had. So that scope is ended first.

use std::collections::BTreeSet;
use std::fs;
use std::io;

use etcd_client::{Compare, CompareOp, DeleteOptions, ResponseHeader, Txn, TxnOp};
use leader_election::etcd::EtcdElection;
use prost::Message;

use super::keys::Keys;
use super::ledger::{EtcdLedger, blocking, link_of, reign, unknown};
use super::link::Link;
use super::queue::first_candidate;
use crate::store::clean::writer_of;
use crate::store::output::sync_folder;
use crate::store::{Backup, CommitError, Output, Reign, Saved, StoreError};
use crate::wire::{Delta, Epoch, Manifest};

/// Deltas that one link of the chain names: a value in etcd has a limit.
const DELTAS: usize = 4000;

/// Says what a chain that ends with `head`, under tokens of `scope`, lacks of what was
/// saved; and which step brings it back.
///
/// `leads` is whoever leads there.
pub(super) fn lacks(
    saved: &[Saved],
    scope: &str,
    leads: Option<&Reign>,
    head: &Manifest,
) -> Option<String> {
    let is_old =
        |own: &Saved| own.is_ahead_of(head) || leads.is_some_and(|reign| reign.repeats(&own.reign));
    let known = head.id();
    if let Some(own) = saved
        .iter()
        .find(|saved| saved.scope == scope && is_old(saved))
    {
        let (was, token) = (own.head.id(), own.reign.token);
        return Some(format!(
            "etcd went back to an older state of itself: it holds epoch {known}, the output \
             folder holds epoch {was}, of the token {token} in the same scope {scope}: run \
             `meta restore` once, or correct --etcd"
        ));
    }
    let mut others = saved.iter();
    let other =
        others.find(|saved| saved.scope != scope && !head.replaces.contains(&saved.scope))?;
    let was = other.head.id();
    Some(format!(
        "etcd was rebuilt, or is another: it hands out tokens of {scope} and holds epoch {known}, \
         the output folder holds epoch {was} under {}: run `meta restore` once, or correct --etcd",
        other.scope
    ))
}

/// Puts the newest saved chain into an etcd that lacks it; says what it did.
///
/// # Errors
///
/// [`CommitError`]; called again, it goes on.
///
/// # Cancel safety
///
/// Dropped, it has to be called again.
pub async fn restore(
    link: &Link,
    keys: &Keys,
    election: &EtcdElection,
    output: &Output,
) -> Result<String, CommitError> {
    let mut scope = scope_of(election).await?;
    let output = output.clone();
    let backup = Backup::of(&output);
    // First: what a running loop keeps from here on is no sign that etcd lacks it.
    let saved = blocking(move || backup.read().map_err(broken)).await?;
    if saved.is_empty() {
        let text = "no leader has ever used this folder, so nothing is kept in it: correct --out";
        return Err(CommitError::Broken(text.to_owned()));
    }
    let first = first_candidate(link, keys).await.map_err(unknown)?;
    let leads = first.map(|kv| reign(u64::try_from(kv.create_revision()).unwrap_or(0), kv.key()));
    let (head, revision) = EtcdLedger::head(link, keys).await?;
    let is_whole = match EtcdLedger::deltas(link, keys, &head).await {
        Err(CommitError::Broken(_)) => false,
        read => read.map(|_| true)?,
    };
    if is_whole && lacks(&saved, &scope, leads.as_ref(), &head).is_none() {
        return Ok("nothing is missing: etcd holds the chain of this folder".to_owned());
    };
    let (newest, chain) = (newest(&saved)?.clone(), output.clone());
    let newest = blocking(move || chain.check(&newest.deltas).map(|()| newest).map_err(broken));
    let newest = newest.await?;
    if newest.has_known(&scope) {
        end_scope(link, keys, &scope).await?;
        scope = scope_of(election).await?;
    }
    let links = blocking(move || prepare(&output, &scope, &saved, &newest)).await?;
    put(link, keys, revision, &links).await?;
    let names = links.iter().map(|link| link.deltas.len()).sum::<usize>();
    Ok(format!("the chain is restored, with {names} deltas"))
}

async fn scope_of(election: &EtcdElection) -> Result<String, CommitError> {
    let scope = election.scope().await;
    scope.map_err(|error| CommitError::Unknown(io::Error::other(error)))
}

/// Ends a scope whose tokens may have been others': who leads or waits there loses its
/// place, and the next one asked for the scope makes another.
///
/// What users had asked for by the time of that state may have been served since, and is
/// not to be served twice: who still waits is told that etcd has lost it.
async fn end_scope(link: &Link, keys: &Keys, scope: &str) -> Result<(), CommitError> {
    let life = scope.split('/').next().unwrap_or(scope);
    let is_same = Compare::value(keys.life(), CompareOp::Equal, life);
    let all = Some(DeleteOptions::new().with_prefix());
    let ended = Txn::new().when([is_same]).and_then([
        TxnOp::delete(keys.life(), None),
        TxnOp::delete(keys.requests(), all),
    ]);
    // Where it is another already, somebody else has ended it.
    link.txn(ended).await.map_err(unknown).map(drop)
}

/// Writes the links, then the head, as long as nobody else has written a head.
async fn put(
    link: &Link,
    keys: &Keys,
    revision: i64,
    links: &[Manifest],
) -> Result<(), CommitError> {
    let mut same = vec![unchanged(keys.head(), revision)];
    let all = Some(DeleteOptions::new().with_prefix());
    step(link, &same, TxnOp::delete(keys.chain(), all)).await?;
    for one in links {
        let (key, value) = (keys.link(one.id()), link_of(one).encode_to_vec());
        let put = step(link, &same, TxnOp::put(key.clone(), value, None)).await?;
        // Somebody else may be at it too, and remove what is here.
        same.push(unchanged(key, put));
    }
    let head = links.last().map(Message::encode_to_vec).unwrap_or_default();
    step(link, &same, TxnOp::put(keys.head(), head, None)).await?;
    Ok(())
}

fn unchanged(key: String, revision: i64) -> Compare {
    Compare::mod_revision(key, CompareOp::Equal, revision)
}

/// Writes where all is as it was; returns etcd's revision then.
async fn step(link: &Link, same: &[Compare], write: TxnOp) -> Result<i64, CommitError> {
    let txn = Txn::new().when(same).and_then([write]);
    let written = link.txn(txn).await.map_err(unknown)?;
    if !written.succeeded() {
        let text = "somebody else writes the chain, too: look at `meta status`, and call this \
                    again where it still says so";
        return Err(CommitError::Broken(text.to_owned()));
    }
    Ok(written.header().map_or(0, ResponseHeader::revision))
}

/// Returns the links of the chain to put there; the files that they name are there by then.
fn prepare(
    output: &Output,
    scope: &str,
    saved: &[Saved],
    newest: &Saved,
) -> Result<Vec<Manifest>, CommitError> {
    let scopes = saved.iter().map(|saved| &saved.scope);
    let replaces: BTreeSet<&String> = scopes.chain(&newest.head.replaces).collect();
    let replaces: Vec<String> = replaces
        .into_iter()
        .filter(|s| *s != scope)
        .cloned()
        .collect();
    let mut base = Manifest {
        prev: None,
        deltas: Vec::new(),
        applied: Vec::new(),
        replaces,
        ..newest.head.clone()
    };
    let era = base.replaces.len();
    for part in &mut base.parts {
        part.name = rename(&output.parts(), era, &part.name)?;
    }
    let mut deltas = newest.deltas.clone();
    for delta in &mut deltas {
        delta.name = rename(&output.deltas(), era, &delta.name)?;
    }
    for folder in [output.parts(), output.deltas()] {
        sync_folder(&folder).map_err(CommitError::Unknown)?;
    }
    Ok(links(&base, &deltas))
}

fn links(base: &Manifest, deltas: &[Delta]) -> Vec<Manifest> {
    let mut chunks: Vec<&[Delta]> = deltas.chunks(DELTAS).collect();
    if chunks.is_empty() {
        chunks.push(&[]);
    }
    let mut n = 0;
    let mut link = |deltas: &[Delta]| {
        n += 1;
        Manifest {
            epoch: Some(Epoch::new(0, n)),
            prev: (n > 1).then(|| Epoch::new(0, n - 1)),
            deltas: deltas.to_vec(),
            ..base.clone()
        }
    };
    chunks.into_iter().map(&mut link).collect()
}

/// Returns the saved chain that no other has replaced.
fn newest(saved: &[Saved]) -> Result<&Saved, CommitError> {
    let is_replaced = |one: &Saved| saved.iter().any(|s| s.head.replaces.contains(&one.scope));
    let mut left = saved.iter().filter(|one| !is_replaced(one));
    match (left.next(), left.next()) {
        (Some(newest), None) => Ok(newest),
        (one, other) => Err(CommitError::Broken(format!(
            "the output folder holds several chains ({}, {}): keep one folder of backup/",
            one.map_or("", |one| &one.scope),
            other.map_or("", |other| &other.scope),
        ))),
    }
}

/// Gives a file the name that it has in a restored chain, beside its own.
fn rename(folder: &std::path::Path, era: usize, name: &str) -> Result<String, CommitError> {
    if writer_of(name).is_none() {
        return Err(CommitError::Broken(format!(
            "{name:?} is no name of a file of this loop"
        )));
    }
    // Of term zero, as the first epochs of such a chain; it may have been restored before.
    if name.starts_with("0-") {
        return Ok(name.to_owned());
    }
    let restored = format!("0-{era}-{name}");
    match fs::hard_link(folder.join(name), folder.join(&restored)) {
        Err(error) if error.kind() != io::ErrorKind::AlreadyExists => {
            let path = folder.join(name).display().to_string();
            Err(CommitError::Broken(format!(
                "{path} cannot be kept: {error}"
            )))
        }
        _ => Ok(restored),
    }
}

fn broken(error: StoreError) -> CommitError {
    CommitError::Broken(error.to_string())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn saved(scope: &str, head: Epoch, prev: Epoch, replaces: &[&str]) -> Saved {
        let head = Manifest {
            epoch: Some(head),
            prev: Some(prev),
            replaces: replaces.iter().map(|&scope| scope.to_owned()).collect(),
            ..Manifest::default()
        };
        Saved {
            scope: scope.to_owned(),
            reign: reign(5, b"words/leader/key"),
            head,
            has_landed: false,
            deltas: Vec::new(),
        }
    }

    #[test]
    fn a_chain_lacks_what_another_scope_has_or_what_follows_its_head() {
        let (one, two, three) = (Epoch::new(5, 1), Epoch::new(5, 2), Epoch::new(5, 3));
        let kept = [saved("new", three, two, &["old"])];
        let head = |epoch, replaces: &[&str]| saved("", epoch, Epoch::START, replaces).head;
        let lacks = |scope, head| lacks(&kept, scope, None, &head);
        // The last one may not have landed.
        for epoch in [two, three, Epoch::new(9, 1)] {
            assert_eq!(lacks("new", head(epoch, &[])), None, "{epoch}");
        }
        let why = lacks("new", head(one, &[])).unwrap();
        let parts = ["older state of itself", "run `meta restore` once"];
        assert!(parts.iter().all(|part| why.contains(part)), "{why}");
        let why = lacks("other", head(three, &[])).unwrap();
        assert!(why.contains("run `meta restore` once"), "{why}");
        assert_eq!(lacks("other", head(one, &["new"])), None);
        assert_eq!(super::lacks(&[], "any", None, &Manifest::default()), None);
    }

    #[test]
    fn who_leads_by_a_token_that_was_given_before_leads_an_older_state() {
        let (two, three) = (Epoch::new(5, 2), Epoch::new(5, 3));
        let kept = [saved("life", three, two, &[])];
        let head = saved("", three, two, &[]).head;
        let led = |token, key: &[u8]| lacks(&kept, "life", Some(&reign(token, key)), &head);
        assert_eq!(led(5, b"words/leader/key"), None);
        assert_eq!(led(6, b"words/leader/other"), None);
        for (token, key) in [(4, &b"words/leader/key"[..]), (5, b"words/leader/other")] {
            let why = led(token, key).unwrap();
            assert!(why.contains("of the token 5"), "{why}");
        }
    }

    #[test]
    fn the_newest_chain_is_the_one_that_no_other_replaces() {
        let epoch = Epoch::new(5, 1);
        let of = |scope, replaces| saved(scope, epoch, Epoch::START, replaces);
        let three = [of("b", &["a"]), of("c", &["a", "b"]), of("a", &[])];
        assert_eq!(newest(&three).unwrap().scope, "c");
        let two = [of("b", &["a"]), of("c", &["a"])];
        let why = newest(&two).unwrap_err().to_string();
        assert!(why.contains("several chains (b, c)"), "{why}");
    }

    #[test]
    fn a_long_chain_becomes_links_that_follow_each_other_and_name_all() {
        let delta = |n: usize| Delta {
            name: n.to_string(),
            ..Delta::default()
        };
        let deltas: Vec<Delta> = (0..2 * DELTAS + 1).map(delta).collect();
        let base = Manifest {
            closed: true,
            ..Manifest::default()
        };
        let links = links(&base, &deltas);
        assert_eq!(links.len(), 3);
        let mut prev = Epoch::START;
        for link in &links {
            assert_eq!((link.predecessor(), link.id().term), (prev, 0));
            assert!(link.closed && link.encoded_len() < 1 << 20);
            prev = link.id();
        }
        let named: Vec<Delta> = links.into_iter().flat_map(|link| link.deltas).collect();
        assert_eq!(named, deltas);
        // A chain of nothing has a link all the same: it names what it replaces.
        assert_eq!(super::links(&base, &[]).len(), 1);
    }
}
